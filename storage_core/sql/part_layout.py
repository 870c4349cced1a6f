"""Which digest proves which bytes of a part's file, from its first byte to its last.

The file is cut into pieces that leave nothing out: its chunks, the blocks outside of them and the
foot. The foot is proven by the catalogue's entry, and has the digests of the others
(storage_core/format/chunk_table.py).
"""

import os
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash

from storage_core.errors import CorruptionError
from storage_core.format.chunk_table import ChunkTable, decode_chunk_table
from storage_core.format.part_entry import FileProof
from storage_core.parts.footer import refuse_changed_footer

# A piece that is proven whole and read in portions is cut at multiples of this.
_BLOCK_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class Layout:
    """The pieces of a file, each directly behind the one before.

    Attributes:
        offsets: Where each begins.
        digests: The xxh3-64 of its bytes.
        size: Where the last one ends.
    """

    offsets: "array[int]"
    digests: "array[int]"
    size: int

    def between(self, begin: int, end: int) -> range:
        """Return the numbers of the pieces that bytes lie in."""
        return range(bisect_right(self.offsets, begin) - 1, bisect_left(self.offsets, end))

    def end_of(self, piece: int) -> int:
        """Return where a piece ends."""
        return self.offsets[piece + 1] if piece + 1 < len(self.offsets) else self.size

    @property
    def bytes_kept(self) -> int:
        """How many bytes it takes in memory, about."""
        return 16 * len(self.offsets)


def read_layout(file: int, proof: FileProof) -> Layout:
    """Return the pieces of a file that was published with this proof.

    Args:
        file: Its descriptor.
        proof: What proves it.

    Raises:
        CorruptionError: Its foot is not as it was published, or does not tell of all its bytes.
        OSError: The system does not let it be read.
    """
    begin = proof.size - proof.foot_bytes
    foot = read_exactly(file, begin, proof.foot_bytes)
    refuse_changed_footer(foot, proof)
    return _of_table(decode_chunk_table(foot), begin, foot)


def blocks_of(data: bytes, offset: int) -> Layout:
    """Return bytes of a file that were proven as smaller pieces, which end at even places.

    Args:
        data: The bytes.
        offset: Where they begin in the file.
    """
    end = offset + len(data)
    evens = range((offset // _BLOCK_BYTES + 1) * _BLOCK_BYTES, end, _BLOCK_BYTES)
    offsets = array("q", [offset, *evens])
    whole = memoryview(data)
    digests = array("Q")
    for begin, stop in zip(offsets, [*offsets[1:], end], strict=True):
        digests.append(xxhash.xxh3_64_intdigest(whole[begin - offset : stop - offset]))
    return Layout(offsets, digests, end)


def read_exactly(file: int, offset: int, size: int) -> bytes:
    """Return bytes of a file.

    Raises:
        CorruptionError: It ends before them.
        OSError: The system does not let them be read.
    """
    data = os.pread(file, size, offset)
    while len(data) < size:
        more = os.pread(file, size - len(data), offset + len(data))
        if not more:
            message = f"a part ends at {offset + len(data)}, before its last bytes"
            raise CorruptionError(message)
        data += more
    return data


def _of_table(table: ChunkTable, end: int, foot: bytes) -> Layout:
    """Return the pieces that a foot tells of."""
    offsets = np.concatenate([table.offsets, table.outside.offsets, [end]])
    sizes = np.concatenate([table.sizes, table.outside.sizes, [len(foot)]])
    of_foot = np.array([xxhash.xxh3_64_intdigest(foot)], np.uint64)
    digests = np.concatenate([table.digests, table.outside.digests, of_foot])
    # A chunk may be empty, and lies then where the next piece begins.
    order = np.lexsort((sizes, offsets))
    offsets, sizes, digests = offsets[order], sizes[order], digests[order]
    if offsets[0] != 0 or (offsets[1:] != offsets[:-1] + sizes[:-1]).any():
        message = "the table of a part's chunks does not tell of all its bytes"
        raise CorruptionError(message)
    has_bytes = sizes > 0
    return Layout(
        array("q", offsets[has_bytes].astype(np.int64).tobytes()),
        array("Q", digests[has_bytes].astype(np.uint64).tobytes()),
        end + len(foot),
    )
