"""A batch's files on their way into a directory of Parquet: each batch once, whatever is killed.

    <into>/day=2026-11-23/batch-12-0.parquet      what readers see
    <into>/_landing/landing.json                  whose directory it is, and by which schema
    <into>/_landing/staged/…                      files of a batch that is not decided yet
    <into>/_landing/list.json                     a decided batch: which file goes where
    <into>/_landing/done.json                     the last batch whose files are all in place, and
                                                  up to which offset each shard has landed

    publish(batch)
      1. sync the staged files
      2. write the batch's list: from here on it is decided, and comes again as a no-op
      3. give each file its name
      4. note the batch as done; take its list and what is staged away

    stops after      left                            who goes on
    staging, 1       staged files                    the batch comes again, staged anew
    2, within 3      a list, some files in place     the next start, or the batch that comes again
    4                the batch, done                 nothing is left to do

Batches are identified by their offsets, and numbered here: a batch lands that begins where the last
one ended, and the last one comes again as a no-op. Spark's own numbers would not do, since they
restart with a new checkpoint; its rows would be taken for those that have landed.

Readers see a batch's files one by one. Names that begin with `_` are no data to Spark, to pyarrow's
datasets and to Hive; give other tools `<into>/*/*.parquet`.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage_core import (
    CorruptionError,
    DirectoryLock,
    ForeignDataError,
    InvalidRequestError,
    SystemClock,
    UnavailableError,
)
from storage_core.platform.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    sync_directory,
    taking_errors,
)
from streaming_jobs.sink.checkpoint import sync

OWN: Final = "_landing"
_OWNER: Final = "landing.json"
_DONE: Final = "done.json"
_LIST: Final = "list.json"
_STAGED: Final = "staged"
_SUFFIX: Final = ".parquet"
_CLOCK: Final = SystemClock()
_LOCK_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose directory it is.

    Attributes:
        stream: The stream that lands here.
        incarnation: Which one of that name, and which of its logs were archived by a reset.
        partition: How files are dealt to directories; it never changes.
        schema: The text of the schema by which values are read, None for raw ones.
    """

    stream: str
    incarnation: str
    partition: str
    schema: str | None


class Landing:
    """A directory that batches land in; under its lock, but for asking whose it is."""

    def __init__(self, into: Path) -> None:
        """Take a directory; nothing is read or made yet."""
        self.into = into
        self._own = into / OWN

    # --- whose it is -------------------------------------------------------------------------

    def owner(self) -> Owner | None:
        """Return whose directory it is; None if nobody's yet.

        Raises:
            InvalidRequestError: Something else lies there, or it may not be read.
            CorruptionError: The note was damaged.
        """
        if self.into.exists() and not self.into.is_dir():
            message = f"{self.into} is a file; name a directory"
            raise InvalidRequestError(message)
        with taking_errors(self.into, "the directory cannot be read"):
            try:
                fields = read_document(self.note)
            except FileNotFoundError:
                others = [one.name for one in _entries(self.into) if one.name != OWN]
                if others:
                    message = (
                        f"{self.into} holds {min(others)!r}, which did not land here: name "
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
        previous = self.owner()
        self.refuse_others(previous, owner)
        if previous == owner:
            return
        with taking_errors(self.into, "the directory cannot be made"):
            make_directories(self._own)
        # Another job may be about to claim it as well.
        with self.lock():
            self.refuse_others(self.owner(), owner)
            with taking_errors(self.into, "the directory cannot be made"):
                fields = {name: getattr(owner, name) for name in Owner.__slots__}
                replace_durably(self.note, encode_document(fields))

    def refuse_others(self, previous: Owner | None, owner: Owner) -> None:
        """Refuse an owner where another one is there, or one who parts it otherwise.

        Raises:
            ForeignDataError: Another stream lands there.
            InvalidRequestError: Files are dealt otherwise there.
        """
        if previous is None:
            return
        if (previous.stream, previous.incarnation) != (owner.stream, owner.incarnation):
            again = ", reset or re-created since" if previous.stream == owner.stream else ""
            message = (
                f"stream {previous.stream!r} lands in {self.into}{again}; name another directory"
            )
            raise ForeignDataError(message)
        if previous.partition != owner.partition:
            message = (
                f"{self.into} is partitioned by {previous.partition}, not by {owner.partition}: "
                "this never changes; name another directory"
            )
            raise InvalidRequestError(message)

    @property
    def note(self) -> Path:
        """The file that says whose it is."""
        return self._own / _OWNER

    # --- batches -----------------------------------------------------------------------------

    def lock(self) -> DirectoryLock:
        """Take what lets one job at a time land something here.

        Raises:
            UnavailableError: Another job went on holding it, or the directory is gone.
        """
        with file_errors(self.into, "the directory cannot be locked"):
            lock = DirectoryLock.within(self._own, _CLOCK, _LOCK_WAIT_S)
        if lock is None:
            message = f"another job lands in {self.into}; stop one of them"
            raise UnavailableError(message)
        return lock

    def landed(self) -> Mapping[int, int]:
        """Return up to which offset each shard has landed; of none before the first batch."""
        return self._done()[1]

    def has_landed(
        self, begins: Mapping[int, int], ends: Mapping[int, int], batch: int = 0
    ) -> bool:
        """Tell whether a batch has landed; else it is the one that comes next.

        Args:
            begins: Where it begins, by shard.
            ends: Where it ends.
            batch: Its number by the checkpoint.

        Raises:
            ForeignDataError: It is neither: the checkpoint is another one, or was set back, or what
                had landed is gone.
        """
        number, landed = self._done()
        if number and dict(ends) == dict(landed):
            return True
        if batch and not number:
            message = (
                f"nothing has landed in {self.into}, and the checkpoint has come to batch {batch}: "
                "the directory is another one, or was emptied; put it back, or begin with a new "
                "checkpoint"
            )
            raise ForeignDataError(message)
        for shard, begin in begins.items():
            if landed.get(shard, begin) != begin:
                message = (
                    f"{self.into} has shard {shard} up to offset {landed[shard]}, and the batch "
                    f"begins at {begin}: its checkpoint was set back, or is another one; with a "
                    "new one the job goes on where the directory ends"
                )
                raise ForeignDataError(message)
        return False

    @property
    def staging(self) -> Path:
        """Where the files of a batch are staged; what is there is of no worth."""
        return self._own / _STAGED

    def publish(self, ends: Mapping[int, int]) -> list[Path]:
        """Land what is staged of the batch that comes next; return the files.

        Raises:
            UnavailableError: The disk refuses; the batch may come again.
        """
        with file_errors(self.into, "a batch cannot land"):
            self._decide(self._done()[0] + 1, ends)
            return self._finish()

    def recover(self) -> None:
        """Finish what was decided, and delete what was not."""
        with file_errors(self.into, "what an earlier run left cannot be finished"):
            if self._list.exists():
                self._finish()
            shutil.rmtree(self.staging, ignore_errors=True)

    def _done(self) -> tuple[int, dict[int, int]]:
        """Return the number of the last batch whose files are in place, and where it ended."""
        with file_errors(self.into, "what has landed cannot be read"):
            try:
                fields = read_document(self._own / _DONE)
            except FileNotFoundError:
                return 0, {}
        return _whole(fields["number"]), _offsets(fields["ends"])

    def _decide(self, batch: int, ends: Mapping[int, int]) -> None:
        staged = self.staging
        files = []
        for number, file in enumerate(sorted(staged.rglob(f"*{_SUFFIX}"))):
            sync(file)
            place = file.parent.relative_to(staged) / f"batch-{batch}-{number}{_SUFFIX}"
            files.append([str(file.relative_to(staged)), str(place)])
        for folder in {(staged / file).parent for file, _ in files}:
            sync_directory(folder)
        ends_by_shard = {str(shard): end for shard, end in sorted(ends.items())}
        fields = {"number": batch, "ends": ends_by_shard, "files": files}
        replace_durably(self._list, encode_document(fields))

    def _finish(self) -> list[Path]:
        fields = read_document(self._list)
        number, landed, folders = _whole(fields["number"]), [], set()
        # All of it is in place where only the list was not taken away.
        for file, place in _pairs(fields, self._list) if number > self._done()[0] else ():
            target, source = self.into / place, self.staging / file
            make_directories(target.parent)
            if source.exists():
                source.rename(target)
            elif not target.exists():
                message = f"batch {number} was decided, and its file is gone"
                raise CorruptionError(message, path=target)
            landed.append(target)
            folders.add(target.parent)
        for folder in folders:
            sync_directory(folder)
        done = {"number": number, "ends": fields["ends"]}
        replace_durably(self._own / _DONE, encode_document(done))
        self._list.unlink()
        shutil.rmtree(self.staging, ignore_errors=True)
        return landed

    @property
    def _list(self) -> Path:
        return self._own / _LIST


def _pairs(document: dict[str, object], path: Path) -> Iterator[tuple[str, str]]:
    files = document["files"]
    if not isinstance(files, list):
        message = "not the list of a batch"
        raise CorruptionError(message, path=path)
    for file, place in files:
        yield str(file), str(place)


def _offsets(value: object) -> dict[int, int]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {int(shard): _whole(end) for shard, end in pairs}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else int(str(value))


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
