"""A file that the store does not give, while it gives others: a problem of that file alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.format.shard_state import AddressRange
from storage_core.lake.delta.state import log_path
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.table import LakeFileGoneError, LakeTable
from storage_core.parts.snapshot import Part


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file of the store, as whoever reads it tells of it.

    Attributes:
        path: Its path below the table.
        shard: The shard whose rows it is of.
        addresses: The addresses of these.
    """

    path: str
    shard: int
    addresses: AddressRange

    @classmethod
    def of_part(cls, part: Part) -> Self:
        """Return the place of a part's file, as it lies."""
        entry = part.entry
        path = whole_image_name(part.shard, entry)
        return cls(path, part.shard, AddressRange(entry.first, entry.last + 1))


class UnreadFileError(UnavailableError):
    """The store does not give a file, as one in an archive; its text is the reason.

    Attributes:
        file: Its path below the table, where whoever reads it says so.
    """

    file: str | None = None

    @property
    def problem(self) -> LakeProblem:
        """What a check tells of it."""
        return LakeProblem(self.shard, self.start, self.end, "unread", self.message, self.file)


OnUnread = Callable[[UnreadFileError], None]


@contextmanager
def one_file_alone(table: LakeTable, place: FilePlace | None = None) -> Iterator[None]:
    """Let a file that is read keep no other from being read.

    Args:
        table: The table.
        place: The file, for whoever tells of it.

    Raises:
        UnreadFileError: The store does not give this one, and gives others.
        LakeFileGoneError: It has none.
        InvalidRequestError: It gives nothing: the credentials were taken away.
        UnavailableError: It gives nothing, or the disk of this machine refuses.
    """
    try:
        yield
    except LakeFileGoneError:
        raise
    except (InvalidRequestError, UnavailableError) as error:
        # Of a disk of this machine the path is told.
        if error.path is not None:
            raise
        # Raises where the store gives nothing else either; that there is no such file is an answer.
        with TemporaryDirectory() as scratch, suppress(LakeFileGoneError):
            table.get(log_path(table.version), Path(scratch) / "commit.json")
        raise _unread(error.message, place) from error


def _unread(message: str, place: FilePlace | None) -> UnreadFileError:
    if place is None:
        return UnreadFileError(message)
    start, end = place.addresses.start, place.addresses.end
    unread = UnreadFileError(message, shard=place.shard, start=start, end=end)
    unread.file = place.path
    return unread
