"""Frames: the rows that a remembered query had of a range of each shard, in a file of Arrow's.

A frame is an IPC file of LZ4 batches. Each batch is of one shard; batches are in the order of
places. The digest of the whole file stands in the list of frames (frame_list.py): a frame is proved
before a row of it is answered.
"""

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import pyarrow as pa

from storage_core import CorruptionError
from storage_core.platform.durable_file import sync_directory
from storage_core.platform.xxh3 import xxh3_128_hexdigest
from typed_events.query.located import PLACE, SHARD

BATCH_ROWS_MAX: Final = 65_536
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class Frame:
    """What the list says of a frame.

    Attributes:
        file: The name of its file.
        size: How many bytes that has.
        digest: The xxh3-128 of them, in hex.
        rows: How many rows it has.
        newest: The largest primary of them.
        starts: Where its range of each shard begins; it is 0 in others.
        ends: Where that ends.
        shards: Of which shard each batch is.
    """

    file: str
    size: int
    digest: str
    rows: int
    newest: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    shards: tuple[int, ...]


class OpenFrame:
    """A frame whose file is open, and may be deleted meanwhile."""

    def __init__(self, file: BinaryIO, shards: tuple[int, ...]) -> None:
        """Take over a file."""
        with file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._shards = shards

    @classmethod
    def proved(cls, directory: Path, frame: Frame) -> Self:
        """Open a frame.

        Raises:
            FileNotFoundError: It is gone.
            CorruptionError: It is not what was written.
        """
        path = directory / frame.file
        file = path.open("rb")
        if os.fstat(file.fileno()).st_size != frame.size:
            file.close()
            message = "the frame has another size than the list of frames says"
            raise CorruptionError(message, path=path)
        opened = cls(file, frame.shards)
        if opened.digest != frame.digest:
            message = "the frame does not match its checksum"
            raise CorruptionError(message, path=path)
        return opened

    @property
    def digest(self) -> str:
        """The xxh3-128 of its bytes, in hex."""
        return xxh3_128_hexdigest(self._map)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self._map)

    def batches(
        self, shard: int | None = None, *, are_places_alone: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows, or those of one shard, in the order of places."""
        options = _untyped.ipc.IpcReadOptions(
            included_fields=[*range(len(PLACE))] if are_places_alone else None
        )
        reader = _untyped.ipc.open_file(_untyped.py_buffer(self._map), options=options)
        for number, of_batch in enumerate(self._shards):
            if shard is None or of_batch == shard:
                yield reader.get_batch(number)


def by_shard(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each shard of a batch that is in the order of places, cut to batches."""
    shards = batch.column(batch.schema.get_field_index(SHARD)).to_numpy()
    begin = 0
    while begin < len(shards):
        shard = int(shards[begin])
        behind = int(shards.searchsorted(shard, "right"))
        end = min(behind, begin + BATCH_ROWS_MAX)
        yield shard, batch.slice(begin, end - begin)
        begin = end


class FrameFile:
    """A frame that is written; nobody's until a list names it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Make the file."""
        self._path = path
        self._file = path.open("x+b")
        self._shards: list[int] = []
        self.rows = 0
        options = _untyped.ipc.IpcWriteOptions(compression="lz4")
        self._writer = _untyped.ipc.new_file(self._file, schema, options=options)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows, which are behind those before."""
        for batch in batches:
            for shard, rows in by_shard(batch):
                self._writer.write_batch(rows)
                self._shards.append(shard)
                self.rows += rows.num_rows

    def finish(
        self, newest: int, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> tuple[Frame, OpenFrame]:
        """Make it durable, and return what a list has to say of it."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        opened = OpenFrame(self._file, tuple(self._shards))
        sync_directory(self._path.parent)
        frame = Frame(
            self._path.name,
            opened.size,
            opened.digest,
            self.rows,
            newest,
            starts,
            ends,
            tuple(self._shards),
        )
        return frame, opened

    def discard(self) -> None:
        """Delete the file."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
