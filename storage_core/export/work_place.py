"""Where an export is written before it has its name, so that it is whole or not there.

    .<name>.partial/plan.json       a manifest without chunks: what was asked, and of which moment
    .<name>.partial/chunks.jsonl    a line for each chunk whose files are durable
    .<name>.partial/<files>         those of the chunks, and of one that was under way

At the end the manifest is written, plan and journal go, and the directory gets its name. Whatever
interrupts that, the same command goes on behind the last line of the journal.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.export.manifest import (
    MANIFEST_FILE,
    Chunk,
    Manifest,
    decode_chunk,
    encode_chunk,
    encode_manifest,
    read_manifest,
    with_chunks,
)
from storage_core.platform.durable_file import (
    make_directories,
    sync_directory,
    taking_errors,
    write_once,
)
from storage_core.platform.file_lock import DirectoryLock

PLAN_FILE: Final = "plan.json"
_JOURNAL: Final = "chunks.jsonl"


def partial_place(target: Path) -> Path:
    """Return where an export is before it has its name."""
    return target.parent / f".{target.name}.partial"


class WorkPlace:
    """An export under way.

    Attributes:
        plan: What is exported; of an export that goes on, as it was at its begin.
        chunks: What is durable of it.
        is_resumed: Whether it goes on.
    """

    def __init__(self, target: Path, directory: Path, plan: Manifest, chunks: list[Chunk]) -> None:
        """Take over a directory; use `opened`."""
        self.target = target
        self.directory = directory
        self.plan = plan
        self.chunks = chunks
        self.is_resumed = bool(chunks)

    @classmethod
    @contextmanager
    def opened(cls, target: Path, plan: Manifest) -> Iterator[Self]:
        """Begin, or go on with, the export of a plan that shall be at `target`.

        Raises:
            InvalidRequestError: There is something at `target`, or an interrupted export of
                something else beside it.
            UnavailableError: Another process writes it, or the disk refuses.
        """
        target = Path(os.path.abspath(target))  # noqa: PTH100 - links stay as they were named
        refuse_what_is_there(target)
        directory = partial_place(target)
        with taking_errors(directory, "exporting"):
            make_directories(directory)
            lock = DirectoryLock.if_free(directory)
            if lock is None:
                message = "another process is exporting to there"
                raise UnavailableError(message, path=target)
            with lock:
                planned = cls._known_plan(directory, plan)
                if planned is None:
                    cls._clear(directory, set())
                    write_once(directory / PLAN_FILE, encode_manifest(plan))
                chunks = cls._known_chunks(directory)
                place = cls(target, directory, planned or plan, chunks)
                place.is_resumed = planned is not None
                retained = {file.name for one in chunks for file in one.files}
                cls._clear(directory, retained | {PLAN_FILE, _JOURNAL})
                yield place

    def add(self, chunk: Chunk) -> None:
        """Take over the files of a chunk, which are durable but for their names."""
        sync_directory(self.directory)
        with (self.directory / _JOURNAL).open("a") as journal:
            journal.write(encode_chunk(chunk) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.chunks.append(chunk)

    def finish(self) -> Manifest:
        """Give the export its name; durable on return."""
        manifest = with_chunks(self.plan, tuple(self.chunks))
        # IMPORTANT: once it is there nothing but the names is missing.
        (self.directory / MANIFEST_FILE).unlink(missing_ok=True)
        write_once(self.directory / MANIFEST_FILE, encode_manifest(manifest))
        for name in (_JOURNAL, PLAN_FILE):
            (self.directory / name).unlink(missing_ok=True)
        sync_directory(self.directory)
        try:
            self.directory.rename(self.target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            message = f"something came there meanwhile; the export is in {self.directory}"
            raise InvalidRequestError(message, path=self.target) from error
        sync_directory(self.target.parent)
        return manifest

    @classmethod
    def _known_plan(cls, directory: Path, plan: Manifest) -> Manifest | None:
        """Return the plan that an interrupted export had; None if there was none."""
        try:
            planned = read_manifest(directory / PLAN_FILE)
        except FileNotFoundError:
            if not (directory / MANIFEST_FILE).exists():
                return None
            # All but the name is done.
            planned = read_manifest(directory / MANIFEST_FILE)
            lines = "".join(encode_chunk(one) + "\n" for one in planned.chunks)
            (directory / _JOURNAL).write_text(lines)
            write_once(directory / PLAN_FILE, encode_manifest(with_chunks(planned, ())))
        except CorruptionError as error:
            message = f"an interrupted export cannot go on; remove it: {error.message}"
            raise InvalidRequestError(message, path=directory) from error
        if planned.is_asked_alike(plan):
            return planned.without_what_is_lost(plan)
        message = (
            f"an interrupted export of stream {planned.stream!r} is there, of other rows or in "
            "another form; finish it as it was begun, or remove it"
        )
        raise InvalidRequestError(message, path=directory)

    @staticmethod
    def _known_chunks(directory: Path) -> list[Chunk]:
        chunks = []
        journal = directory / _JOURNAL
        if not journal.exists():
            return []
        whole = journal.read_bytes().rpartition(b"\n")[0]
        for line in whole.decode(errors="replace").splitlines():
            try:
                chunk = decode_chunk(line)
            except (ValueError, TypeError, KeyError):
                break
            if any(not _is_there(directory / one.name, one.bytes) for one in chunk.files):
                break
            chunks.append(chunk)
        # A line that was cut would go on in the next one.
        journal.write_text("".join(encode_chunk(one) + "\n" for one in chunks))
        return chunks

    @staticmethod
    def _clear(directory: Path, retained: set[str]) -> None:
        for path in directory.iterdir():
            if path.name not in retained and path.is_file():
                path.unlink()


def refuse_what_is_there(target: Path) -> None:
    """Refuse a place that has something, an empty directory apart.

    Raises:
        InvalidRequestError: It has.
    """
    with taking_errors(target, "exporting"):
        if not target.exists():
            return
        if target.is_dir() and not any(target.iterdir()):
            return
    message = "there is something already; an export needs a place of its own"
    raise InvalidRequestError(message, path=target)


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
