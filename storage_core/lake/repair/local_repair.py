"""The files of a shard's parts on this machine, made good from the lake or from copies elsewhere.

Any process may do it that may write in the shard's directory, beside the owner and its readers. The
file appears whole in its place: who has the damaged one open reads on in that, and who opens it
later has the other. Two who repair one shard take turns.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.part_entry import PartEntry
from storage_core.lake.absent.lake_parts import LakeParts
from storage_core.lake.absent.local_files import delete_local, is_to_go, show_local
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.maintenance.local_parts import LocalPart, parts_of_log
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.maintenance.unread import UnreadFileError, one_file_alone
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.repair.part_copies import PartCopies, bytes_of
from storage_core.lake.repair.report import RepairedFile, RepairKind
from storage_core.lake.table import LakeTable
from storage_core.parts.snapshot import Part
from storage_core.platform.clock import SystemClock
from storage_core.platform.durable_file import (
    make_directories,
    remove_drafts,
    replace_in_pieces,
    taking_errors,
)
from storage_core.platform.file_lock import DirectoryLock
from storage_core.reader import StreamReader
from storage_core.verify.part_checks import difference

# How long another process may take that repairs the same shard.
_WAIT_MAX_S: Final = 600.0


@dataclass(slots=True)
class LocalRepair:
    """Repairs parts of one stream, and tells which cannot be had.

    Attributes:
        reader: The stream, opened by the path of its root.
        table: Its table, loaded.
        lake: The parts in the table's store.
        copies: Copies of parts elsewhere.
        damaged: Paths of files that the store has otherwise than the part list; more are found.
        damaged_here: Shards and names of files that were found damaged on this machine.
        repaired: What was made good.
        nowhere: Digests of parts that nobody has.
        unread: What the store does not give, though it gives others.
    """

    reader: StreamReader
    table: LakeTable
    lake: LakeParts
    copies: PartCopies
    damaged: set[str]
    damaged_here: Collection[tuple[int, str]]
    repaired: list[RepairedFile] = field(default_factory=list)
    nowhere: set[str] = field(default_factory=set)
    unread: list[LakeProblem] = field(default_factory=list)

    def repair(self, shard: int, entries: Iterable[PartEntry]) -> None:
        """Make the parts of a shard good, one after the other; durable on return.

        1. Compare: the file of each part that is here, and what the store has of it.
        2. Choose who has it: the store, a copy elsewhere, or nobody.
        3. Write: a file beside it, compared with the digest of the part list as it comes, takes its
           name; other programs see the new one. Where `keep_local` lets it go, the damaged one is
           deleted instead, once the store's was read whole.

        A crash before the file has its name leaves the damaged one, and what the next call removes.

        Args:
            shard: The shard.
            entries: Its part list.

        Raises:
            InvalidRequestError: This process may not write there.
            UnavailableError: The store does not answer, or the disk refuses.
        """
        for local in parts_of_log(self.reader, self.table, shard, entries, read=False):  # 1
            is_in_store = local.is_in_store and self._path(local.part) not in self.damaged
            if self._is_well(local, is_in_store=is_in_store):
                continue
            with self._alone(local.part):
                self._replace(local.part, is_in_store=is_in_store)  # 2, 3

    def _is_well(self, local: LocalPart, *, is_in_store: bool) -> bool:
        part = local.part
        if not local.is_here or local.damage:
            return is_in_store and not local.is_here
        # What nothing else has is uploaded: whether it is well is to be known.
        is_suspect = (part.shard, part.entry.file_name) in self.damaged_here or not is_in_store
        return not is_suspect or not difference(part.path, part.entry)

    def _replace(self, part: Part, *, is_in_store: bool) -> None:
        """Steps 2 and 3."""
        if is_in_store and self._from_lake(part):
            return
        if any(self._from_copy(part, copy) for copy in self.copies.candidates(part)):
            return
        if part.entry in follower_of(self.reader, part.shard).parts().entries:
            self.nowhere.add(part.entry.digest.hex())

    def _from_lake(self, part: Part) -> bool:
        """Take a part from the store; False if that has another file, or none, or keeps it."""
        try:
            with one_file_alone(self.table):
                if is_to_go(self.reader, part):
                    self.lake.prove(part)
                    delete_local(part)
                    self._note(part, "left to lake")
                else:
                    self._write(part, self._in_lake(part))
                    self._note(part, "from lake")
        except CorruptionError:
            self.damaged.add(self._path(part))
            return False
        except UnreadFileError as error:
            self.unread.append(self._problem(part, str(error)))
            return False
        return True

    def _from_copy(self, part: Part, copy: Path) -> bool:
        """Take a part from a copy; False if that has other bytes, or is gone meanwhile."""
        try:
            self._write(part, bytes_of(copy, part.entry))
        except CorruptionError:
            return False
        self._note(part, "from copy", str(copy))
        return True

    def _in_lake(self, part: Part) -> Iterator[bytes]:
        try:
            yield from self.lake.whole(part)
        except FileNotFoundError as error:
            message = "the store has no such file"
            raise CorruptionError(message, shard=part.shard) from error

    def _write(self, part: Part, pieces: Iterable[bytes]) -> None:
        with taking_errors(part.path, "repairing a part"):
            replace_in_pieces(part.path, pieces)
            show_local(self.reader, part, part.path)

    @contextmanager
    def _alone(self, part: Part) -> Iterator[None]:
        """Keep others from repairing the shard meanwhile, and remove what a crash of theirs left.

        Raises:
            UnavailableError: Another process takes too long.
        """
        directory = part.path.parent
        with taking_errors(directory, "repairing parts"):
            make_directories(directory)
            lock = DirectoryLock.within(directory, SystemClock(), _WAIT_MAX_S)
        if lock is None:
            message = "another process repairs the parts of the shard"
            raise UnavailableError(message, shard=part.shard, path=directory)
        with lock:
            remove_drafts(part.path)
            yield

    def _note(self, part: Part, kind: RepairKind, source: str | None = None) -> None:
        entry = part.entry
        done = RepairedFile(part.shard, entry.first, entry.last + 1, kind, entry.file_name, source)
        self.repaired.append(done)

    def _problem(self, part: Part, message: str) -> LakeProblem:
        entry, path = part.entry, self._path(part)
        return LakeProblem(part.shard, entry.first, entry.last + 1, "unread", message, path)

    def _path(self, part: Part) -> str:
        return whole_image_name(part.shard, part.entry)
