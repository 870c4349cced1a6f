"""The files of parts as DuckDB reads them: those that were looked at, and only as published.

DuckDB knows a part by a name of ours, `shardlog://<stream>/<shard>/<digest>/part-0000000007.parquet`,
and gets the bytes of no other file. Each piece of a part (storage_core/sql/part_layout.py) is read
whole and compared with its digest before a byte of it is given out. What DuckDB takes in portions
is kept within `CACHE_BYTES_MAX`; what was dropped is read and proven again. Of a large piece the
digests of its blocks are kept instead, made as it was proven, and its portions are read once more.

DuckDB calls from threads of its own, several at a time. What goes wrong in them comes out of DuckDB
as a text; so the error itself is kept here for whoever asked.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import O_RDONLY
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Final

import pyarrow as pa
import xxhash

from storage_core.errors import CorruptionError, InvalidRequestError, ShardlogError
from storage_core.format.part_entry import PartEntry
from storage_core.parts.footer import read_error
from storage_core.platform.descriptor import OwnedDescriptor, opened
from storage_core.sql.moment import A_PART_HAS_GONE, PartGoneError
from storage_core.sql.part_layout import Layout, blocks_of, read_exactly, read_layout

PROTOCOL: Final = "shardlog"
# What is kept of pieces that were proven, and of the layouts of files, beside what DuckDB keeps.
CACHE_BYTES_MAX: Final = 64 * 2**20
_LAYOUT: Final = -1
# So many portions as DuckDB reads at a time are of pieces that all fit.
_PIECES_KEPT: Final = 32


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
            error = read_error(self.path, error)
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

    def forget(self, stream: str) -> None:
        """Let DuckDB read no part of a stream any more."""
        self._lists.pop(stream, None)

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
        first, last = numbers[0], numbers[-1]
        starts_inside, ends_inside = begin > layout.offsets[first], end < layout.end_of(last)
        if first == last and (starts_inside or ends_inside):
            return self._portion(part.url, layout, file, begin, end)
        pieces = []
        if starts_inside:
            pieces.append(self._portion(part.url, layout, file, begin, layout.end_of(first)))
        if whole := numbers[starts_inside : len(numbers) - ends_inside]:
            pieces.append(_read_proven(file, layout, whole))
        if ends_inside:
            pieces.append(self._portion(part.url, layout, file, layout.offsets[last], end))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _portion(self, url: str, layout: Layout, file: int, begin: int, end: int) -> bytes:
        """Return some bytes of one piece, which is read and proven once: of a large one its blocks.

        Of large ones DuckDB reads several at a time, each in a hundred portions: all of them would
        not fit what is kept, and each portion would read its piece.
        """
        (number,) = layout.between(begin, end)
        first = layout.offsets[number]
        # One after the other: portions of one piece are asked for at once, and each would read it.
        with self._one_portion:
            kept = self._cache.get((url, number))
            if kept is None:
                kept = _read_proven(file, layout, range(number, number + 1))
                self._cache.put_piece((url, number), kept, first)
        if isinstance(kept, Layout):
            blocks = kept.between(begin, end)
            first = kept.offsets[blocks[0]]
            kept = _read_proven(file, kept, blocks)
        portion: bytes = kept[begin - first : end - first]
        return portion


def _read_proven(file: int, layout: Layout, numbers: range) -> bytes:
    """Return neighbouring pieces of a file, each as it was published."""
    first, last = layout.offsets[numbers[0]], layout.end_of(numbers[-1])
    data = read_exactly(file, first, last - first)
    whole = memoryview(data)
    for number in numbers:
        begin, end = layout.offsets[number], layout.end_of(number)
        if xxhash.xxh3_64_intdigest(whole[begin - first : end - first]) != layout.digests[number]:
            message = f"bytes {begin} to {end} of a part are not as they were published"
            raise CorruptionError(message)
    return data


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
    """What was proven last, within `CACHE_BYTES_MAX`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: tuple[str, int]) -> Any:  # noqa: ANN401 - bytes, or a layout
        """Return what is kept under a key; None if nothing is."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put_piece(self, key: tuple[str, int], piece: bytes, offset: int) -> None:
        """Keep a piece that was proven; of a large one the digests of its blocks."""
        if len(piece) <= CACHE_BYTES_MAX // _PIECES_KEPT:
            self.put(key, piece, len(piece))
        else:
            blocks = blocks_of(piece, offset)
            self.put(key, blocks, blocks.bytes_kept)

    def put(self, key: tuple[str, int], value: Layout | bytes, size: int) -> None:
        """Keep something, and drop what was not asked for longest."""
        if size > CACHE_BYTES_MAX:
            # It would take the place of all that is kept, and not stay.
            return
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value, size
                self._bytes += size
            while self._bytes > CACHE_BYTES_MAX:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._bytes -= dropped
