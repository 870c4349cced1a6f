"""The memory that a Parquet file would take, computed before it is decompressed.

A page header claims the uncompressed size, and Arrow allocates it. A column of few bytes may have
many values, each a large one of a dictionary. So the footer and all page headers are read here
first, for each row group, since one is read at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storage_core.export.memory_budget import MemoryBudget, TooLargeError
from storage_core.export.thrift import ThriftReader

_MAGIC: Final = b"PAR1"
_FOOTER_BYTES_MAX: Final = 16 * 2**20
_LEAVES_MAX: Final = 20_000
_DEPTH_MAX: Final = 200
_PAGES_MAX: Final = 1_000_000
# For the values in one page header, of which an export writes some thirty.
_HEAD_BYTES_MAX: Final = 2**17
# By physical type: boolean, int32, int64, int96, float, double; others have no fixed width.
_WIDTHS: Final = (1, 4, 8, 12, 4, 8)
_FIXED: Final = 7
# Memory beside each value: levels, validity, offset.
_VALUE_OVERHEAD: Final = 8
_DICTIONARY_PAGE: Final = 2
# Each value is a prefix of the one before and more: few bytes become any number.
_DELTA_BYTE_ARRAY: Final = 7


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column: its path, and the width of its values; 0 if it varies."""

    path: tuple[str, ...]
    width: int


def check_memory(data: bytes, rows: int, bytes_max: int) -> list[str]:
    """Refuse a file with a row group that would take too much memory.

    Args:
        data: The file.
        rows: The number of rows that it must have.
        bytes_max: The memory limit of a row group.

    Returns:
        The columns to read as dictionaries, since their values would take more.

    Raises:
        TooLargeError: A row group would take more.
        ValueError: No export wrote this file.
    """
    footer = _footer(data, MemoryBudget(bytes_max))
    leaves = list(_leaves(footer[2]))
    row_groups: list[dict[int, Any]] = footer[4]
    MemoryBudget(bytes_max).take(8 * (rows + len(row_groups)))
    if footer[3] != rows or sum(row_group[3] for row_group in row_groups) != rows:
        message = f"the footer has {footer[3]} rows, expected {rows}"
        raise ValueError(message)
    pages = MemoryBudget(_PAGES_MAX)
    names: dict[str, None] = {}
    for row_group in row_groups:
        budget = MemoryBudget(bytes_max)
        for leaf, column_chunk in zip(leaves, row_group[1], strict=True):
            if _count_chunk(data, leaf, column_chunk, budget, pages):
                names[leaf.path[0]] = None
    return list(names)


def _footer(data: bytes, budget: MemoryBudget) -> dict[int, Any]:
    size = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or not 0 < size <= len(data) - 12:
        message = "it is not a Parquet file"
        raise ValueError(message)
    MemoryBudget(_FOOTER_BYTES_MAX).take(size)
    return ThriftReader(data, len(data) - 8 - size, len(data) - 8, budget).fields()


def _leaves(elements: Sequence[dict[int, Any]]) -> Iterator[_Leaf]:
    """Yield the leaf columns of a schema, which is a tree in preorder."""
    # For each enclosing group the number of children to come, and its name.
    enclosing: list[list[Any]] = [[elements[0][5], None]]
    if len(elements) > _LEAVES_MAX:
        message = f"it has {len(elements)} columns"
        raise ValueError(message)
    for element in elements[1:]:
        while enclosing and not enclosing[-1][0]:
            enclosing.pop()
        if not enclosing or len(enclosing) > _DEPTH_MAX:
            message = "its schema is not a tree, or too deep"
            raise ValueError(message)
        enclosing[-1][0] -= 1
        name = element[4].decode()
        if 1 not in element:
            enclosing.append([element[5], name])
            continue
        path = (*(name for _, name in enclosing[1:]), name)
        width = _WIDTHS[element[1]] if element[1] < len(_WIDTHS) else 0
        yield _Leaf(path, element[2] if element[1] == _FIXED else width)


def _count_chunk(
    data: bytes,
    leaf: _Leaf,
    column_chunk: dict[int, Any],
    budget: MemoryBudget,
    pages: MemoryBudget,
) -> bool:
    """Count the memory of a column chunk; return whether to read it as a dictionary."""
    metadata = column_chunk[3]
    offset = min(metadata[9], metadata.get(11) or metadata[9])
    end = offset + metadata[7]
    if 1 in column_chunk or not 0 <= offset <= end <= len(data):
        message = f"column {'.'.join(leaf.path)} lies outside of the file"
        raise ValueError(message)
    values = largest = 0
    while offset < end:
        pages.take(1)
        header, begin = page_header(data, offset, end)
        offset = begin + header[3]
        if not (header[2] >= 0 and begin <= offset <= end):
            message = f"a page of column {'.'.join(leaf.path)} is larger than the column"
            raise ValueError(message)
        budget.take(header[2])
        page: dict[int, Any] = header.get(5) or header.get(7) or header.get(8) or {}
        if _DELTA_BYTE_ARRAY in (page.get(2), page.get(4)):
            message = f"column {'.'.join(leaf.path)} has an encoding that no export writes"
            raise ValueError(message)
        if header[1] == _DICTIONARY_PAGE:
            largest = max(largest, header[2])
        else:
            values += page.get(1, 0)
    budget.take(max(values, metadata[5]) * (leaf.width + _VALUE_OVERHEAD))
    if leaf.width or not largest:
        return False
    if len(leaf.path) == 1:
        return True
    # Inside of structs and lists all values count as the largest.
    budget.take(values * largest)
    return False


def page_header(data: bytes, offset: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header, and its end."""
    reader = ThriftReader(data, offset, end, MemoryBudget(_HEAD_BYTES_MAX))
    try:
        return reader.fields(), reader.offset
    except TooLargeError as error:
        message = f"the page header at byte {offset} is larger than any that an export writes"
        raise ValueError(message) from error
