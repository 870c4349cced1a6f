"""A batch's files on their way into a directory of Parquet: each batch once, whatever is killed.

    <into>/day=2026-11-23/batch-12-0.parquet      what readers see
    <into>/_landing/landing.json                  whose directory it is, and by which schema
    <into>/_landing/staged/12/…                   files of a batch that is not decided yet
    <into>/_landing/batches/12.json               a decided batch: which file goes where
    <into>/_landing/done.json                     the last batch whose files are all in place

    publish(batch)
      1. sync the staged files
      2. write the batch's list: from here on it is decided, and comes again as a no-op
      3. give each file its name
      4. note the batch as done; take its list and what is staged away

    stops after      left                            who goes on
    staging, 1       staged files                    the batch comes again, staged anew
    2, within 3      a list, some files in place     the next start, or the batch that comes again
    4                the batch, done                 nothing is left to do

Readers see a batch's files one by one. Names that begin with `_` are no data to Spark, to pyarrow's
datasets and to Hive; other tools are told `<into>/*/*.parquet`.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage_core import CorruptionError, ForeignDataError, InvalidRequestError
from storage_core.ground.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    sync_directory,
)

OWN: Final = "_landing"
_OWNER: Final = "landing.json"
_DONE: Final = "done.json"
_BATCHES: Final = "batches"
_STAGED: Final = "staged"
_SUFFIX: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose directory it is.

    Attributes:
        stream: The stream that lands here.
        incarnation: Which one of that name.
        partition: How files are dealt to directories; it never changes.
        schema: The text of the schema by which values are read, None for raw ones.
    """

    stream: str
    incarnation: str
    partition: str
    schema: str | None


class Landing:
    """A directory that batches land in. One process at a time, which Spark's checkpoint sees to."""

    def __init__(self, into: Path) -> None:
        """Take a directory; nothing is read or made yet."""
        self.into = into
        self._own = into / OWN

    # --- whose it is -------------------------------------------------------------------------

    def owner(self) -> Owner | None:
        """Return whose directory it is; None if nobody's yet.

        Raises:
            InvalidRequestError: Something else lies there.
            CorruptionError: The note was damaged.
        """
        with file_errors(self.into, "the directory cannot be read"):
            try:
                fields = read_document(self._own / _OWNER)
            except FileNotFoundError:
                there = [one.name for one in _entries(self.into) if one.name != OWN]
                if there:
                    message = (
                        f"{self.into} holds {min(there)!r}, which did not land here: name "
                        "another directory, or one that is not there yet"
                    )
                    raise InvalidRequestError(message) from None
                return None
        stream, incarnation = str(fields["stream"]), str(fields["incarnation"])
        schema = None if fields["schema"] is None else str(fields["schema"])
        return Owner(stream, incarnation, str(fields["partition"]), schema)

    def claim(self, owner: Owner) -> None:
        """Make the directory an owner's, or prove that it is.

        Raises:
            ForeignDataError: Another stream lands there.
            InvalidRequestError: Files are dealt otherwise there, or something else lies there.
        """
        there = self.owner()
        if there is not None and (there.stream, there.incarnation) != (
            owner.stream,
            owner.incarnation,
        ):
            again = ", made anew since" if there.stream == owner.stream else ""
            message = (
                f"{self.into} is where stream {there.stream!r} lands{again}; name another directory"
            )
            raise ForeignDataError(message)
        if there is not None and there.partition != owner.partition:
            message = (
                f"{self.into} is parted by {there.partition}, not by {owner.partition}: this never "
                "changes; name another directory"
            )
            raise InvalidRequestError(message)
        if there != owner:
            with file_errors(self.into, "the directory cannot be made"):
                make_directories(self._own)
                fields = {name: getattr(owner, name) for name in Owner.__slots__}
                replace_durably(self._own / _OWNER, encode_document(fields))

    # --- batches -----------------------------------------------------------------------------

    def done(self) -> int:
        """Return the last batch whose files are all in place; -1 if there is none."""
        try:
            return _whole(read_document(self._own / _DONE)["batch"])
        except FileNotFoundError:
            return -1

    def is_decided(self, batch: int) -> bool:
        """Tell whether a batch has landed, or will without being made again."""
        return batch <= self.done() or self._list_of(batch).exists()

    def staging(self, batch: int) -> Path:
        """Return where the files of a batch are staged; what is there is of no worth."""
        return self._own / _STAGED / str(batch)

    def publish(self, batch: int) -> list[Path]:
        """Land what is staged of a batch, unless it has; return the files.

        Raises:
            UnavailableError: The disk refuses; the batch may come again.
        """
        with file_errors(self.into, f"batch {batch} cannot land"):
            if batch <= self.done():
                return []
            if not self._list_of(batch).exists():
                self._decide(batch)
            return self._finish(batch)

    def recover(self) -> None:
        """Finish what was decided, and sweep what was not; before the first batch of a run."""
        with file_errors(self.into, "what an earlier run left cannot be finished"):
            done = self.done()
            lists = [one for one in _entries(self._own / _BATCHES) if one.suffix == ".json"]
            for batch in sorted(int(one.stem) for one in lists):
                if batch > done:
                    self._finish(batch)
                self._list_of(batch).unlink(missing_ok=True)
            shutil.rmtree(self._own / _STAGED, ignore_errors=True)

    def _decide(self, batch: int) -> None:
        staged = self.staging(batch)
        files = []
        for number, file in enumerate(sorted(staged.rglob(f"*{_SUFFIX}"))):
            _sync(file)
            place = file.parent.relative_to(staged) / f"batch-{batch}-{number}{_SUFFIX}"
            files.append([str(file.relative_to(staged)), str(place)])
        for folder in {(staged / file).parent for file, _ in files}:
            sync_directory(folder)
        make_directories(self._own / _BATCHES)
        replace_durably(self._list_of(batch), encode_document({"batch": batch, "files": files}))

    def _finish(self, batch: int) -> list[Path]:
        landed, folders = [], set()
        for file, place in _pairs(read_document(self._list_of(batch)), self._list_of(batch)):
            target, source = self.into / place, self.staging(batch) / file
            make_directories(target.parent)
            if source.exists():
                source.rename(target)
            elif not target.exists():
                message = f"batch {batch} was decided, and its file is gone"
                raise CorruptionError(message, path=target)
            landed.append(target)
            folders.add(target.parent)
        for folder in folders:
            sync_directory(folder)
        replace_durably(self._own / _DONE, encode_document({"batch": batch}))
        self._list_of(batch).unlink()
        shutil.rmtree(self.staging(batch), ignore_errors=True)
        return landed

    def _list_of(self, batch: int) -> Path:
        return self._own / _BATCHES / f"{batch}.json"


def _pairs(document: dict[str, object], path: Path) -> Iterator[tuple[str, str]]:
    files = document["files"]
    if not isinstance(files, list):
        message = "not the list of a batch"
        raise CorruptionError(message, path=path)
    for file, place in files:
        yield str(file), str(place)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else int(str(value))


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
