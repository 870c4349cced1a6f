"""Part files as DuckDB reads them: only listed parts, and only verified bytes.

DuckDB knows a part by a URL of ours, `shardlog://<stream>/<shard>/<digest>/part-0000000007.parquet`,
and gets the bytes of no other file. Each range of a part (checksum_ranges.py) is read whole and
compared with its digest before a byte of it is returned. A range that DuckDB reads in portions is
cached within `CACHE_BYTES_MAX`; after eviction it is read and verified again. Of a large range the
cache has the digests of smaller ranges, and its portions are read once more.

DuckDB calls from several threads of its own. It turns an exception into text, so the exception is
kept here for the caller.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import CorruptionError, InvalidRequestError, ShardlogError
from storage_core.format.part_entry import PartEntry
from storage_core.parts.footer import read_error
from storage_core.parts.part_bytes import PartBytes
from storage_core.platform import xxh3
from storage_core.sql.checksum_ranges import ChecksumRanges, read_ranges, subranges
from storage_core.sql.part_groups import PART_GONE, PartGoneError

PROTOCOL: Final = "shardlog"
# The cache of verified ranges and of files' range lists, beside DuckDB's own cache.
CACHE_BYTES_MAX: Final = 64 * 2**20
_RANGES_KEY: Final = -1
# The cache has room for the ranges that DuckDB reads at a time.
_RANGES_CACHED: Final = 32


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part that DuckDB may read.

    Attributes:
        stream: Its stream.
        shard: Its shard.
        path: Its file.
        entry: Its entry in the part list.
        opener: Opens the file.
        snapshot_number: The number of its snapshot, if bytes are not verified: bytes read for an
            earlier one may have been damaged.
    """

    stream: str
    shard: int
    path: Path
    entry: PartEntry
    opener: Callable[[], PartBytes]
    snapshot_number: int | None = None

    @property
    def url(self) -> str:
        """Its name in DuckDB; no other part ever has this name."""
        digest = self.entry.digest.hex()
        suffix = "" if self.snapshot_number is None else f"-{self.snapshot_number}"
        return f"{PROTOCOL}://{self.stream}/{self.shard}/{digest}{suffix}/{self.entry.file_name}"

    def error(self, error: Exception) -> ShardlogError:
        """Return an error of its file with the stream, shard and addresses."""
        if isinstance(error, (OSError, MemoryError, pa.ArrowException)):
            error = read_error(self.path, error)
        if isinstance(error, FileNotFoundError):
            return PartGoneError(PART_GONE)
        if not isinstance(error, ShardlogError):
            raise error
        if not isinstance(error, CorruptionError):
            return error.placed(self.stream, self.shard)
        return CorruptionError(
            error.message,
            stream=self.stream,
            shard=self.shard,
            path=self.path,
            start=self.entry.first,
            end=self.entry.last + 1,
        )


class PartFiles:
    """The parts that DuckDB may read. Any thread."""

    def __init__(self, *, verify_checksums: bool) -> None:
        """Start without parts.

        Args:
            verify_checksums: Compare what is read with its digests.
        """
        self.verify_checksums = verify_checksums
        self._lists: dict[str, dict[str, ListedPart]] = {}
        self._cache = _Cache()
        self._portion_lock = Lock()
        self._failure: BaseException | None = None

    def forget(self, stream: str) -> None:
        """Remove the parts of a stream."""
        self._lists.pop(stream, None)

    @contextmanager
    def listing(self, stream: str, parts: Iterable[ListedPart]) -> Iterator[None]:
        """List these parts of a stream beside the old ones, and instead of them after the context.

        After an error the old ones remain: rows of an earlier snapshot may still be fetched.
        """
        old, new = self._lists.get(stream, {}), {part.url: part for part in parts}
        self._lists[stream] = old | new
        try:
            yield
        except BaseException:
            self._lists[stream] = old
            raise
        self._lists[stream] = new

    def listed(self, url: str) -> ListedPart | None:
        """Return the part of a URL; None if there is none."""
        stream = url.removeprefix(f"{PROTOCOL}://").partition("/")[0]
        return self._lists.get(stream, {}).get(url)

    def open(self, url: str, mode: str) -> "PartHandle":
        """Open a part for reading.

        Raises:
            InvalidRequestError: The mode is to write, or the part is not listed.
        """
        with self.failing():
            part = self.listed(url)
            if mode != "rb" or part is None:
                message = "SQL only reads the parts of streams, and writes no file"
                raise InvalidRequestError(message)
            return PartHandle(self, part)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Keep an exception for the caller, since DuckDB turns it into text."""
        try:
            yield
        except BaseException as error:
            if self._failure is None:
                self._failure = error
            raise

    def take_failure(self) -> BaseException | None:
        """Return the first exception since the last call, if any."""
        failure, self._failure = self._failure, None
        return failure

    def ranges(self, part: ListedPart, file: PartBytes) -> ChecksumRanges:
        """Return the checksummed ranges of a part."""
        ranges = self._cache.get((part.url, _RANGES_KEY))
        if not isinstance(ranges, ChecksumRanges):
            ranges = read_ranges(file, part.entry.proof)
            self._cache.put((part.url, _RANGES_KEY), ranges, ranges.cache_bytes)
        return ranges

    def read_verified(
        self, part: ListedPart, ranges: ChecksumRanges, file: PartBytes, begin: int, end: int
    ) -> bytes:
        """Return bytes of a part after all ranges that have them are verified."""
        numbers = ranges.between(begin, end)
        first, last = numbers[0], numbers[-1]
        starts_inside, ends_inside = begin > ranges.offsets[first], end < ranges.end_of(last)
        if first == last and (starts_inside or ends_inside):
            return self._portion(part.url, ranges, file, begin, end)
        portions = []
        if starts_inside:
            portions.append(self._portion(part.url, ranges, file, begin, ranges.end_of(first)))
        if whole := numbers[starts_inside : len(numbers) - ends_inside]:
            portions.append(_read_verified(file, ranges, whole))
        if ends_inside:
            portions.append(self._portion(part.url, ranges, file, ranges.offsets[last], end))
        return portions[0] if len(portions) == 1 else b"".join(portions)

    def _portion(
        self, url: str, ranges: ChecksumRanges, file: PartBytes, begin: int, end: int
    ) -> bytes:
        """Return some bytes of one range, which is read and verified once.

        DuckDB reads several large ranges at a time, each in a hundred portions: they would not fit
        the cache together, and each portion would read its whole range.
        """
        (number,) = ranges.between(begin, end)
        first = ranges.offsets[number]
        # One at a time: DuckDB reads portions of one range in parallel, and each would read it all.
        with self._portion_lock:
            cached = self._cache.get((url, number))
            if cached is None:
                cached = _read_verified(file, ranges, range(number, number + 1))
                self._cache.put_range((url, number), cached, first)
        if isinstance(cached, ChecksumRanges):
            numbers = cached.between(begin, end)
            first = cached.offsets[numbers[0]]
            cached = _read_verified(file, cached, numbers)
        portion: bytes = cached[begin - first : end - first]
        return portion


def _read_verified(file: PartBytes, ranges: ChecksumRanges, numbers: range) -> bytes:
    """Return contiguous ranges of a file, each verified."""
    first, last = ranges.offsets[numbers[0]], ranges.end_of(numbers[-1])
    data = file.read(first, last - first)
    whole = memoryview(data)
    for number in numbers:
        begin, end = ranges.offsets[number], ranges.end_of(number)
        if xxh3.xxh3_64_intdigest(whole[begin - first : end - first]) != ranges.digests[number]:
            message = f"bytes {begin} to {end} of a part are not as they were published"
            raise CorruptionError(message)
    return data


class PartHandle:
    """A part that DuckDB has opened. Any thread; each has its own position."""

    closed = False

    def __init__(self, files: PartFiles, part: ListedPart) -> None:
        """Open the file on the first read: DuckDB may have all bytes cached."""
        self._files = files
        self._part = part
        self._offsets: dict[int, int] = {}
        self._file: PartBytes | None = None
        self._lock = Lock()
        self._ranges: ChecksumRanges | None = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def seek(self, offset: int, _whence: int = 0) -> int:
        """Set the position of this thread."""
        self._offsets[get_ident()] = offset
        return offset

    def tell(self) -> int:
        """Return the position of this thread."""
        return self._offsets.get(get_ident(), 0)

    def read(self, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            CorruptionError: They are damaged.
            ShardlogError: They cannot be read.
        """
        # IMPORTANT: DuckDB shares a handle between threads, each of which seeks and reads: a common
        # position would be another thread's by now. DuckDB does not check the length of what it
        # gets, so fewer bytes would be wrong bytes in silence.
        begin = self._offsets[get_ident()]
        end = self._offsets[get_ident()] = begin + size
        with self._files.failing():
            try:
                return self._bytes(begin, end)
            except (OSError, MemoryError, ShardlogError) as error:
                raise self._part.error(error) from error

    def _bytes(self, begin: int, end: int) -> bytes:
        if begin == end:
            return b""
        if end > self._part.entry.size:
            message = f"bytes {begin} to {end} are beyond the end of a part"
            raise CorruptionError(message)
        with self._lock:
            if self._file is None:
                self._file = self._part.opener()
            file = self._file
        if not self._files.verify_checksums:
            return file.read(begin, end - begin)
        ranges = self._ranges
        if ranges is None:
            ranges = self._ranges = self._files.ranges(self._part, file)
        return self._files.read_verified(self._part, ranges, file, begin, end)


class _Cache:
    """The most recently used verified ranges, within `CACHE_BYTES_MAX`."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, int], tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: tuple[str, int]) -> Any:  # noqa: ANN401 - bytes, or a layout
        """Return the entry of a key; None if there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put_range(self, key: tuple[str, int], data: bytes, offset: int) -> None:
        """Cache a verified range; of a large one the digests of its subranges."""
        if len(data) <= CACHE_BYTES_MAX // _RANGES_CACHED:
            self.put(key, data, len(data))
        else:
            numbers = subranges(data, offset)
            self.put(key, numbers, numbers.cache_bytes)

    def put(self, key: tuple[str, int], value: ChecksumRanges | bytes, size: int) -> None:
        """Cache an entry, and evict the least recently used."""
        if size > CACHE_BYTES_MAX:
            # It would evict everything, and itself.
            return
        with self._lock:
            if key not in self._entries:
                self._entries[key] = value, size
                self._bytes += size
            while self._bytes > CACHE_BYTES_MAX:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped
