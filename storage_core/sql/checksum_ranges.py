"""The checksummed ranges of a part file, which cover it from the first byte to the last.

They are its column chunks, the blocks outside of them and the footer. The part list has the digest
of the footer, which has the digests of the others (storage_core/format/chunk_table.py).
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np

from storage_core.errors import CorruptionError
from storage_core.format.chunk_table import ChunkTable, decode_chunk_table
from storage_core.format.part_entry import FileProof
from storage_core.parts.footer import footer_bytes
from storage_core.parts.part_bytes import PartBytes
from storage_core.platform import xxh3

# A large range is split at multiples of this, once it is verified.
_SUBRANGE_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class ChecksumRanges:
    """Contiguous ranges of a file.

    Attributes:
        offsets: Where each begins.
        digests: The xxh3-64 of its bytes.
        size: Where the last one ends.
    """

    offsets: "array[int]"
    digests: "array[int]"
    size: int

    def between(self, begin: int, end: int) -> range:
        """Return the numbers of the ranges that have these bytes."""
        return range(bisect_right(self.offsets, begin) - 1, bisect_left(self.offsets, end))

    def end_of(self, range_number: int) -> int:
        """Return where a range ends."""
        return self.offsets[range_number + 1] if range_number + 1 < len(self.offsets) else self.size

    @property
    def cache_bytes(self) -> int:
        """About how many bytes it takes in memory."""
        return 16 * len(self.offsets)


def read_ranges(file: PartBytes, proof: FileProof) -> ChecksumRanges:
    """Return the ranges of a file by its footer.

    Args:
        file: It.
        proof: Its size and the digest of its footer.

    Raises:
        CorruptionError: The footer is damaged, or does not cover the whole file.
        OSError: The file cannot be read.
    """
    begin = proof.size - proof.footer_bytes
    footer = footer_bytes(file, proof)
    return _layout_of(decode_chunk_table(footer), begin, footer)


def subranges(data: bytes, offset: int) -> ChecksumRanges:
    """Return smaller ranges of bytes that were verified.

    Args:
        data: The bytes.
        offset: Their offset in the file.
    """
    end = offset + len(data)
    multiples = range((offset // _SUBRANGE_BYTES + 1) * _SUBRANGE_BYTES, end, _SUBRANGE_BYTES)
    offsets = array("q", [offset, *multiples])
    view = memoryview(data)
    digests = array("Q")
    for begin, stop in zip(offsets, [*offsets[1:], end], strict=True):
        digests.append(xxh3.xxh3_64_intdigest(view[begin - offset : stop - offset]))
    return ChecksumRanges(offsets, digests, end)


def _layout_of(table: ChunkTable, end: int, footer: bytes) -> ChecksumRanges:
    """Return the ranges that a footer lists."""
    offsets = np.concatenate([table.offsets, table.outside.offsets, [end]])
    sizes = np.concatenate([table.sizes, table.outside.sizes, [len(footer)]])
    footer_digest = np.array([xxh3.xxh3_64_intdigest(footer)], np.uint64)
    digests = np.concatenate([table.digests, table.outside.digests, footer_digest])
    # An empty column chunk begins where the next range does.
    order = np.lexsort((sizes, offsets))
    offsets, sizes, digests = offsets[order], sizes[order], digests[order]
    if offsets[0] != 0 or (offsets[1:] != offsets[:-1] + sizes[:-1]).any():
        message = "the table of a part's column chunks does not cover the whole file"
        raise CorruptionError(message)
    has_bytes = sizes > 0
    return ChecksumRanges(
        array("q", offsets[has_bytes].astype(np.int64).tobytes()),
        array("Q", digests[has_bytes].astype(np.uint64).tobytes()),
        end + len(footer),
    )
