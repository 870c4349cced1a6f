"""The files of parts as DuckDB reads them: those that were looked at, and only as published.

DuckDB knows a part by a name of ours, `shardlog://<stream>/<shard>/<digest>/part-0000000007.parquet`,
and gets the bytes of no other file. Each piece of a part (storage_core/cold/part_layout.py) is read
whole and compared with its digest before a byte of it is given out. DuckDB takes chunks whole, once
a query. What it takes in portions, such as bloom filters, is kept within `CACHE_BYTES_MAX`; what
was dropped is read and proven again.

DuckDB calls from threads of its own, several at a time. What goes wrong in them comes out of DuckDB
as a text; so the error itself is kept here for whoever asked.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import O_RDONLY
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Final

import pyarrow as pa
import xxhash

from storage_core.cold.moment import A_PART_HAS_GONE, PartGoneError
from storage_core.cold.part_layout import Layout, read_exactly, read_layout
from storage_core.errors import CorruptionError, InvalidRequestError, ShardlogError
from storage_core.format.part_entry import PartEntry
from storage_core.ground.descriptor import OwnedDescriptor, opened
from storage_core.sealed.part_bytes import unread

PROTOCOL: Final = "shardlog"
# What is kept of pieces that were proven, and of the layouts of files, beside what DuckDB keeps.
CACHE_BYTES_MAX: Final = 64 * 2**20
_LAYOUT: Final = -1


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part that DuckDB may read.

    Attributes:
        stream: Its stream.
        shard: Its shard.
        path: Its file.
        entry: What the catalogue says of it.
        look: The number of the look that found it, where its bytes are not proven: what was read
            before may have been damaged.
    """

    stream: str
    shard: int
    path: Path
    entry: PartEntry
    look: int | None = None

    @property
    def url(self) -> str:
        """What DuckDB knows it by; no other part ever has this name."""
        digest = self.entry.digest.hex()
        look = "" if self.look is None else f"-{self.look}"
        return f"{PROTOCOL}://{self.stream}/{self.shard}/{digest}{look}/{self.entry.file_name}"

    def error(self, error: Exception) -> ShardlogError:
        """Return what went wrong with its file, with its place."""
        if isinstance(error, (OSError, MemoryError, pa.ArrowException)):
            error = unread(self.path, error)
        if isinstance(error, FileNotFoundError):
            return PartGoneError(A_PART_HAS_GONE)
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
        """List none yet.

        Args:
            verify_checksums: Compare what is read with its digests.
        """
        self.verify_checksums = verify_checksums
        self._lists: dict[str, dict[str, ListedPart]] = {}
        self._cache = _Cache()
        self._one_portion = Lock()
        self._failure: BaseException | None = None

    def list_parts(self, stream: str, parts: Iterable[ListedPart]) -> None:
        """Let DuckDB read these parts of a stream, and no others of it."""
        self._lists[stream] = {one.url: one for one in parts}

    def drop_large(self) -> None:
        """Drop what the query before was given of pieces larger than `CACHE_BYTES_MAX`."""
        self._cache.drop_large()

    @contextmanager
    def listing(self, stream: str, parts: Iterable[ListedPart]) -> Iterator[None]:
        """Let DuckDB read these parts of a stream too, and behind that no others of it.

        After an error it reads what it did: rows of an earlier look may still be fetched.
        """
        before, new = self._lists.get(stream, {}), {one.url: one for one in parts}
        self._lists[stream] = before | new
        try:
            yield
        except BaseException:
            self._lists[stream] = before
            raise
        self._lists[stream] = new

    def listed(self, url: str) -> ListedPart | None:
        """Return the part that has a name; None if there is none."""
        stream = url.removeprefix(f"{PROTOCOL}://").partition("/")[0]
        return self._lists.get(stream, {}).get(url)

    def open(self, url: str, mode: str) -> "PartHandle":
        """Open a part for reading.

        Raises:
            InvalidRequestError: It was to be written.
        """
        with self.failing():
            part = self.listed(url)
            if mode != "rb" or part is None:
                message = "SQL reads the parts of streams, and writes no file"
                raise InvalidRequestError(message)
            return PartHandle(self, part)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Keep an error for whoever asked; DuckDB makes a text of it."""
        try:
            yield
        except BaseException as error:
            if self._failure is None:
                self._failure = error
            raise

    def take_failure(self) -> BaseException | None:
        """Return what went wrong since this was last called."""
        failure, self._failure = self._failure, None
        return failure

    def layout(self, part: ListedPart, file: int) -> Layout:
        """Return the pieces of a part."""
        layout = self._cache.get((part.url, _LAYOUT))
        if not isinstance(layout, Layout):
            layout = read_layout(file, part.entry.proof)
            self._cache.put((part.url, _LAYOUT), layout, layout.bytes_kept)
        return layout

    def proven(self, part: ListedPart, layout: Layout, file: int, begin: int, end: int) -> bytes:
        """Return bytes of a part, each piece that they lie in proven."""
        numbers = layout.between(begin, end)
        first, last = layout.offsets[numbers[0]], layout.end_of(numbers[-1])
        if begin == first and end == last:
            data = read_exactly(file, first, last - first)
            _proven_pieces(data, layout, numbers)
            return data
        # One after the other: portions of one piece are asked for at once, and each would read it.
        with self._one_portion:
            kept = self._kept(part.url, numbers)
            if kept is None:
                kept = read_exactly(file, first, last - first)
                pieces = _proven_pieces(kept, layout, numbers)
                for number in sorted({numbers[0], numbers[-1]}):
                    one = kept if len(numbers) == 1 else bytes(pieces[number])
                    self._cache.put((part.url, number), one, len(one))
        return kept[begin - first : end - first]

    def _kept(self, url: str, numbers: range) -> bytes | None:
        """Return pieces that are kept; None unless all of them are."""
        pieces = [self._cache.get((url, number)) for number in numbers]
        if not all(isinstance(one, bytes) for one in pieces):
            return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _proven_pieces(data: bytes, layout: Layout, numbers: range) -> dict[int, memoryview]:
    """Return the pieces that some bytes are, in their order."""
    first, pieces = layout.offsets[numbers[0]], {}
    for number in numbers:
        begin, end = layout.offsets[number], layout.end_of(number)
        piece = pieces[number] = memoryview(data)[begin - first : end - first]
        if xxhash.xxh3_64_intdigest(piece) != layout.digests[number]:
            message = f"bytes {begin} to {end} of a part are not as they were published"
            raise CorruptionError(message)
    return pieces


class PartHandle:
    """A part that DuckDB has opened. Any thread; each has a place of its own in it."""

    closed = False

    def __init__(self, files: PartFiles, part: ListedPart) -> None:
        """Open its file once something is read: DuckDB may have all that it needs."""
        self._files = files
        self._part = part
        self._places: dict[int, int] = {}
        self._file: OwnedDescriptor | None = None
        self._lock = Lock()
        self._layout: Layout | None = None

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()

    def seek(self, offset: int, _whence: int = 0) -> int:
        """Read from another place of the file on."""
        self._places[get_ident()] = offset
        return offset

    def tell(self) -> int:
        """Return where the next bytes are read from."""
        return self._places.get(get_ident(), 0)

    def read(self, size: int) -> bytes:
        """Return so many bytes.

        Raises:
            CorruptionError: They are not as they were published.
            ShardlogError: They cannot be read.
        """
        # IMPORTANT: DuckDB seeks and reads in one thread, and shares a handle between several: a
        # place that all of them had would be another thread's by now. It takes what it gets for all
        # that it asked for, so that fewer bytes would be others in silence.
        begin = self._places[get_ident()]
        end = self._places[get_ident()] = begin + size
        with self._files.failing():
            try:
                return self._bytes(begin, end)
            except (OSError, MemoryError, ShardlogError) as error:
                raise self._part.error(error) from error

    def _bytes(self, begin: int, end: int) -> bytes:
        if begin == end:
            return b""
        if end > self._part.entry.size:
            message = f"bytes {begin} to {end} lie behind the end of a part"
            raise CorruptionError(message)
        with self._lock:
            if self._file is None:
                self._file = opened(self._part.path, O_RDONLY)
        file = self._file.fileno()
        if not self._files.verify_checksums:
            return read_exactly(file, begin, end - begin)
        layout = self._layout
        if layout is None:
            layout = self._layout = self._files.layout(self._part, file)
        return self._files.proven(self._part, layout, file, begin, end)


class _Cache:
    """What was proven last, within `CACHE_BYTES_MAX`; and the last pieces that are larger.

    Of those there are as many as DuckDB has threads, each of which asks for one in portions: every
    portion would read the whole piece. They go when the next query begins.
    """

    def __init__(self) -> None:
        self._large: deque[tuple[tuple[str, int], Layout | bytes]] = deque(maxlen=os.cpu_count())
        self._kept: OrderedDict[tuple[str, int], tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: tuple[str, int]) -> Any:  # noqa: ANN401 - bytes, or a layout
        """Return what is kept under a key; None if nothing is."""
        with self._lock:
            if key not in self._kept:
                return next((value for one, value in self._large if one == key), None)
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def drop_large(self) -> None:
        """Drop the pieces that are larger than all that is kept otherwise."""
        with self._lock:
            self._large.clear()

    def put(self, key: tuple[str, int], value: Layout | bytes, size: int) -> None:
        """Keep something, and drop what was not asked for longest."""
        with self._lock:
            if size > CACHE_BYTES_MAX:
                # Among the others it would take the place of all of them, and not stay.
                self._large.append((key, value))
                return
            if key not in self._kept:
                self._kept[key] = value, size
                self._bytes += size
            while self._bytes > CACHE_BYTES_MAX:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._bytes -= dropped
