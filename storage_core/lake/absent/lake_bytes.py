"""The bytes of a part that only the lake has, brought by range and proven before they are used.

    footer    the last bytes of the file, which the part list has the digest of
    unit      neighbouring ranges that the footer has the digests of, some 256 KiB together

Both are asked for as they are needed, and kept by name in a cache of this machine. Who reads on
gets more units at a time, twice as many each time. A file that differs from the part list's is
told as damage; nothing of it is kept.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOENT
from threading import Lock
from typing import Final

from storage_core.errors import CorruptionError, ShardlogError, UnavailableError
from storage_core.lake.absent.byte_cache import ByteCache
from storage_core.lake.absent.opened_files import OpenedFiles
from storage_core.lake.delta_errors import LakeFileGoneError
from storage_core.parts.part_home import is_here
from storage_core.parts.snapshot import Part
from storage_core.platform import xxh3
from storage_core.sql.checksum_ranges import ChecksumRanges, read_ranges

UNIT_BYTES: Final = 2**18
# What is asked for at once, but where one read is larger.
RUN_BYTES_MAX: Final = 4 * 2**20
_ONLY_THERE: Final = "the file of a part is only in the lake, and"
# What the units of files that were read last may take in memory.
_UNITS_BYTES_MAX: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FileUnits:
    """The units of a file, but for its footer.

    Attributes:
        ranges: What of the file there are digests of.
        firsts: The number of the first range of each unit, and of the one behind the last.
    """

    ranges: ChecksumRanges
    firsts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.firsts) - 1

    @property
    def cached_bytes(self) -> int:
        """How many bytes it takes in memory, about."""
        return self.ranges.cache_bytes + 8 * len(self.firsts)

    def place(self, number: int) -> int:
        """Return where a unit begins, or the last one ends."""
        return self.ranges.offsets[self.firsts[number]]

    def of(self, place: int) -> int:
        """Return the unit that has the byte at a place."""
        return bisect_right(self.firsts, bisect_right(self.ranges.offsets, place) - 1) - 1

    def is_proven(self, number: int, data: memoryview) -> bool:
        """Tell whether bytes are those of a unit."""
        begin = self.place(number)
        if len(data) != self.place(number + 1) - begin:
            return False
        return all(
            xxh3.xxh3_64_intdigest(
                data[self.ranges.offsets[place] - begin : self.ranges.end_of(place) - begin]
            )
            == self.ranges.digests[place]
            for place in range(self.firsts[number], self.firsts[number + 1])
        )


def units_of(ranges: ChecksumRanges, footer_begin: int) -> FileUnits:
    """Return the units of a file; they are the same wherever they are computed."""
    behind = bisect_left(ranges.offsets, footer_begin)
    firsts, begin = [0], 0
    for number in range(1, behind):
        if ranges.offsets[number] - begin >= UNIT_BYTES:
            firsts.append(number)
            begin = ranges.offsets[number]
    return FileUnits(ranges, (*firsts, behind))


@dataclass(frozen=True, slots=True)
class LakeFile:
    """The file of a part in the lake.

    Attributes:
        opened: The files of the table that are open.
        uri: Where the table is.
        path: Its path there.
        part: The part.
    """

    opened: OpenedFiles
    uri: str
    path: str
    part: Part

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of it, not proven.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It ends before them.
            UnavailableError: The lake cannot be read now.
        """
        with self.explained():
            data = self.opened.read(self.path, offset, size)
        if len(data) != size:
            difference = f"ends at byte {offset + len(data)}"
            raise self.damage(difference)
        return data

    def damage(self, difference: str) -> CorruptionError:
        """Return what tells that the lake has something else than the part list says."""
        entry = self.part.entry
        message = f"the lake's file of a part {difference}: {self.path} in {self.uri}"
        return CorruptionError(
            message, shard=self.part.shard, start=entry.first, end=entry.last + 1
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of what the store refuses which rows it has that nobody else does."""
        try:
            yield
        except LakeFileGoneError as error:
            self.refuse_lost_table()
            text = "the file of a part is neither here nor in the lake"
            raise FileNotFoundError(ENOENT, text, str(self.part.path)) from error
        except ShardlogError as error:
            raise self._unread(error.message) from error

    def refuse_lost_table(self) -> None:
        """Refuse to say that a file is missing where all are: a directory may not be mounted.

        Raises:
            UnavailableError: There is no table, or the lake cannot be read now.
        """
        try:
            has_table = bool(self.opened.files.listed("_delta_log"))
        except ShardlogError as error:
            raise self._unread(error.message) from error
        if not has_table:
            why = f"there is no table at {self.uri}"
            raise self._unread(why)

    def _unread(self, why: str) -> UnavailableError:
        entry = self.part.entry
        whose = "the lake's file of a part" if is_here(self.part) else _ONLY_THERE
        message = f"{whose} cannot be read now: {why}"
        return UnavailableError(
            message, shard=self.part.shard, start=entry.first, end=entry.last + 1
        )


class UnitsCache:
    """The units of files that were read last. Any thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._units: OrderedDict[bytes, FileUnits] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, digest: bytes) -> FileUnits | None:
        """Return the units of the file with a digest; None if they are to be read."""
        with self._lock:
            if digest not in self._units:
                return None
            self._units.move_to_end(digest)
            return self._units[digest]

    def put(self, digest: bytes, units: FileUnits) -> None:
        """Remember the units of the file with a digest, instead of those used longest ago."""
        with self._lock:
            if digest not in self._units:
                self._units[digest] = units
                self._bytes += units.cached_bytes
            while self._bytes > _UNITS_BYTES_MAX:
                _, dropped = self._units.popitem(last=False)
                self._bytes -= dropped.cached_bytes


class LakeBytes:
    """The bytes of a file in the lake. Any thread."""

    def __init__(self, file: LakeFile, cache: ByteCache, units: UnitsCache) -> None:
        """Ask for nothing yet.

        Args:
            file: The file.
            cache: What keeps its bytes here.
            units: The units of files that were read.
        """
        self._file = file
        self._cache = cache
        self._units_cache = units
        self._units: FileUnits | None = None
        self._size = file.part.entry.size
        self._footer_begin = self._size - file.part.entry.footer_bytes
        # What was read last, with its place: replaced as a whole, so that no thread sees a half.
        self._held: tuple[int, bytes] = (0, b"")
        # Where the last units that were asked for end, and how many they were.
        self._reached = (0, 0)

    def close(self) -> None:
        """Hold nothing any more."""
        self._held = (0, b"")

    def read(self, offset: int, size: int) -> bytes:
        """Return just so many bytes, proven.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It differs from the part list's, or ends before them.
            UnavailableError: The lake cannot be read now.
        """
        end = offset + size
        if end > self._size:
            difference = f"has {self._size} bytes"
            raise self._file.damage(difference)
        pieces = []
        while offset < min(end, self._footer_begin):
            begin, data = self._around(offset, min(end, self._footer_begin))
            pieces.append(data[offset - begin : end - begin])
            offset = begin + len(data)
        if end > self._footer_begin:
            pieces.append(self._footer()[offset - self._footer_begin : end - self._footer_begin])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def units(self) -> FileUnits:
        """Return the units of the file.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It differs from the part list's.
            UnavailableError: The lake cannot be read now.
        """
        entry = self._file.part.entry
        units = self._units or self._units_cache.get(entry.digest)
        if units is None:
            units = units_of(read_ranges(self, entry.proof), self._footer_begin)
            self._units_cache.put(entry.digest, units)
        self._units = units
        return units

    def _name(self, begin: int, end: int) -> str:
        return f"{self._file.part.entry.digest.hex()}-{begin}-{end}"

    def bring_footer(self) -> bytes:
        """Return the footer as the lake has it, whatever is kept here; it is kept from then on.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It differs from the part list's.
            UnavailableError: The lake cannot be read now.
        """
        entry = self._file.part.entry
        data = self._file.read(self._footer_begin, entry.footer_bytes)
        if xxh3.xxh3_128_digest(data) != entry.footer_digest:
            difference = "has another footer"
            raise self._file.damage(difference)
        self._cache.put(self._name(self._footer_begin, self._size), data)
        return data

    def _footer(self) -> bytes:
        data = self._cache.get(self._name(self._footer_begin, self._size))
        if data is not None and xxh3.xxh3_128_digest(data) == self._file.part.entry.footer_digest:
            return data
        return self.bring_footer()

    def _around(self, offset: int, end: int) -> tuple[int, bytes]:
        """Return proven bytes about a place, and where they begin."""
        begin, data = self._held
        if begin <= offset < begin + len(data):
            return begin, data
        units = self.units()
        number = units.of(offset)
        cached = self._cached(units, number)
        if cached is None:
            cached = self._fetched(units, number, self._run_end(units, number, end))
        self._held = units.place(number), cached
        return self._held

    def _cached(self, units: FileUnits, number: int) -> bytes | None:
        name = self._name(units.place(number), units.place(number + 1))
        data = self._cache.get(name)
        if data is not None and not units.is_proven(number, memoryview(data)):
            self._cache.drop(name)
            return None
        return data

    def _run_end(self, units: FileUnits, number: int, end: int) -> int:
        """Return the exclusive end of the units that are asked for together."""
        reached, count = self._reached
        count = 2 * count if number == reached else 1
        begin = units.place(number)
        behind = max(units.of(end - 1) + 1, min(number + count, units.count))
        while behind > number + 1 and units.place(behind) - begin > RUN_BYTES_MAX:
            behind -= 1
        self._reached = behind, behind - number
        return behind

    def _fetched(self, units: FileUnits, first: int, behind: int) -> bytes:
        """Return units as the lake has them, which are kept here from then on."""
        begin = units.place(first)
        data = self._file.read(begin, units.place(behind) - begin)
        view = memoryview(data)
        for number in range(first, behind):
            place, end = units.place(number), units.place(number + 1)
            unit = view[place - begin : end - begin]
            if not units.is_proven(number, unit):
                difference = f"differs at bytes {place} to {end}"
                raise self._file.damage(difference)
            self._cache.put(self._name(place, end), bytes(unit))
        return data
