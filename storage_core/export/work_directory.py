"""The directory of an unfinished export, which gets its name when all is written.

    .<name>.partial/plan.json       a manifest without row ranges: the selection and the snapshot
    .<name>.partial/ranges.jsonl    a line for each row range whose files are durable
    .<name>.partial/<files>         the files of these ranges, and of the one being written

At the end the manifest is written, plan and journal are deleted, and the directory is renamed.
After an interruption the same command continues after the last line of the journal.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.export.manifest import (
    MANIFEST_FILE,
    Manifest,
    RowRange,
    decode_range,
    encode_manifest,
    encode_range,
    read_manifest,
)
from storage_core.platform.durable_file import (
    make_directories,
    sync_directory,
    taking_errors,
    write_once,
)
from storage_core.platform.file_lock import DirectoryLock

PLAN_FILE: Final = "plan.json"
_JOURNAL: Final = "ranges.jsonl"


def partial_directory(target: Path) -> Path:
    """Return the directory of an unfinished export."""
    return target.parent / f".{target.name}.partial"


class WorkDirectory:
    """An unfinished export.

    Attributes:
        plan: The manifest without ranges; of a continued export the first one.
        row_ranges: The ranges that are durable.
        is_resumed: Whether it continues an interrupted one.
    """

    def __init__(
        self, target: Path, directory: Path, plan: Manifest, row_ranges: list[RowRange]
    ) -> None:
        """Use `opened`."""
        self.target = target
        self.directory = directory
        self.plan = plan
        self.row_ranges = row_ranges
        self.is_resumed = bool(row_ranges)

    @classmethod
    @contextmanager
    def opened(cls, target: Path, plan: Manifest) -> Iterator[Self]:
        """Start or continue the export of a plan to `target`.

        Raises:
            InvalidRequestError: `target` is not empty, or another interrupted export is beside it.
            UnavailableError: Another process writes it, or the disk fails.
        """
        target = Path(os.path.abspath(target))  # noqa: PTH100 - does not resolve links
        refuse_existing(target)
        directory = partial_directory(target)
        with taking_errors(directory, "exporting"):
            make_directories(directory)
            lock = DirectoryLock.if_free(directory)
            if lock is None:
                message = "another process is exporting to this directory"
                raise UnavailableError(message, path=target)
            with lock:
                stored_plan = cls._planned(directory, plan)
                if stored_plan is None:
                    cls._clear(directory, set())
                    write_once(directory / PLAN_FILE, encode_manifest(plan))
                row_ranges = cls._journalled(directory)
                work = cls(target, directory, stored_plan or plan, row_ranges)
                work.is_resumed = stored_plan is not None
                keep = {file.name for row_range in row_ranges for file in row_range.files}
                cls._clear(directory, keep | {PLAN_FILE, _JOURNAL})
                yield work

    def add(self, row_range: RowRange) -> None:
        """Add a range whose files are durable but for their names."""
        sync_directory(self.directory)
        with (self.directory / _JOURNAL).open("a") as journal:
            journal.write(encode_range(row_range) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.row_ranges.append(row_range)

    def finish(self) -> Manifest:
        """Rename the directory to the target; durable on return."""
        manifest = replace(self.plan, row_ranges=tuple(self.row_ranges))
        # IMPORTANT: with the manifest only the renaming is left.
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
            message = f"the target was created meanwhile; the export is in {self.directory}"
            raise InvalidRequestError(message, path=self.target) from error
        sync_directory(self.target.parent)
        return manifest

    @classmethod
    def _planned(cls, directory: Path, plan: Manifest) -> Manifest | None:
        """Return the plan of an interrupted export; None if there is none."""
        try:
            stored_plan = read_manifest(directory / PLAN_FILE)
        except FileNotFoundError:
            if not (directory / MANIFEST_FILE).exists():
                return None
            # All but the renaming is done.
            stored_plan = read_manifest(directory / MANIFEST_FILE)
            lines = "".join(encode_range(row_range) + "\n" for row_range in stored_plan.row_ranges)
            (directory / _JOURNAL).write_text(lines)
            write_once(directory / PLAN_FILE, encode_manifest(replace(stored_plan, row_ranges=())))
        except CorruptionError as error:
            message = f"an interrupted export cannot be continued; remove it: {error.message}"
            raise InvalidRequestError(message, path=directory) from error
        if stored_plan.has_same_request(plan):
            return stored_plan.without_lost_of(plan)
        message = (
            f"there is an interrupted export of stream {stored_plan.stream!r} with other rows or "
            "another format; run its command again to finish it, or remove it"
        )
        raise InvalidRequestError(message, path=directory)

    @staticmethod
    def _journalled(directory: Path) -> list[RowRange]:
        row_ranges = []
        journal = directory / _JOURNAL
        if not journal.exists():
            return []
        complete = journal.read_bytes().rpartition(b"\n")[0]
        for line in complete.decode(errors="replace").splitlines():
            try:
                row_range = decode_range(line)
            except (ValueError, TypeError, KeyError):
                break
            if any(not _has_size(directory / file.name, file.bytes) for file in row_range.files):
                break
            row_ranges.append(row_range)
        # A truncated line would run into the next one.
        journal.write_text("".join(encode_range(row_range) + "\n" for row_range in row_ranges))
        return row_ranges

    @staticmethod
    def _clear(directory: Path, keep: set[str]) -> None:
        for path in directory.iterdir():
            if path.name not in keep and path.is_file():
                path.unlink()


def refuse_existing(target: Path) -> None:
    """Refuse an existing target, unless it is an empty directory.

    Raises:
        InvalidRequestError: It exists.
    """
    with taking_errors(target, "exporting"):
        if not target.exists():
            return
        if target.is_dir() and not any(target.iterdir()):
            return
    message = "the target exists and is not an empty directory"
    raise InvalidRequestError(message, path=target)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
