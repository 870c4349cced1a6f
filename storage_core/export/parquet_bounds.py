"""What a file of Parquet would take in memory, found before anything of it is unpacked.

A page says how large it is unpacked, and Parquet's library makes room for what it says. A column of
few bytes may be many values, and each of them a large one of a dictionary. So the footer and the
head of each page are read here first, for each group of rows, since one is read at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storage_core.export.bounds import Room, TooLargeError
from storage_core.export.thrift import Thrift

_MAGIC: Final = b"PAR1"
_FOOTER_BYTES_MAX: Final = 16 * 2**20
_LEAVES_MAX: Final = 20_000
_DEPTH_MAX: Final = 200
_PAGES_MAX: Final = 1_000_000
# For the values in the head of one page, of which an export writes some thirty.
_HEAD_BYTES_MAX: Final = 2**17
# By physical type: boolean, int32, int64, int96, float, double; what has no fixed width is below.
_WIDTHS: Final = (1, 4, 8, 12, 4, 8)
_BYTE_ARRAY: Final = 6
_FIXED: Final = 7
# Beside each value: levels, whether it is null, where it begins.
_BESIDE_VALUE: Final = 8
_DICTIONARY_PAGE: Final = 2
# Each value the beginning of the one before and more: a few bytes become as many as one likes.
_DELTA_BYTE_ARRAY: Final = 7


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of values: its path, and the bytes of each; 0 where they differ."""

    path: tuple[str, ...]
    width: int


def refuse_bloated(data: bytes, rows: int, bytes_max: int) -> list[str]:
    """Refuse a file of which a group of rows would take too much.

    Args:
        data: The file.
        rows: How many it is to have.
        bytes_max: What a group may take.

    Returns:
        The columns whose values are those of a dictionary, and take as much as these are large.

    Raises:
        TooLargeError: One would.
        ValueError: It is no file that an export wrote.
    """
    footer = _footer(data, Room(bytes_max))
    leaves = list(_leaves(footer[2]))
    groups: list[dict[int, Any]] = footer[4]
    Room(bytes_max).take(8 * (rows + len(groups)))
    if footer[3] != rows or sum(group[3] for group in groups) != rows:
        message = f"the footer has {footer[3]} rows in the place of {rows}"
        raise ValueError(message)
    pages = Room(_PAGES_MAX)
    names: dict[str, None] = {}
    for group in groups:
        room = Room(bytes_max)
        for leaf, chunk in zip(leaves, group[1], strict=True):
            if _count(data, leaf, chunk, room, pages):
                names[leaf.path[0]] = None
    return list(names)


def _footer(data: bytes, room: Room) -> dict[int, Any]:
    size = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or not 0 < size <= len(data) - 12:
        message = "it is no file of Parquet"
        raise ValueError(message)
    Room(_FOOTER_BYTES_MAX).take(size)
    return Thrift(data, len(data) - 8 - size, len(data) - 8, room).fields()


def _leaves(elements: Sequence[dict[int, Any]]) -> Iterator[_Leaf]:
    """Yield the columns that have values, of a tree that is told from its root on."""
    # How many children of each of those above are still to come, and their names.
    above: list[list[Any]] = [[elements[0][5], None]]
    if len(elements) > _LEAVES_MAX:
        message = f"it has {len(elements)} columns"
        raise ValueError(message)
    for element in elements[1:]:
        while above and not above[-1][0]:
            above.pop()
        if not above or len(above) > _DEPTH_MAX:
            message = "its schema is no tree, or too deep"
            raise ValueError(message)
        above[-1][0] -= 1
        name = element[4].decode()
        if 1 not in element:
            above.append([element[5], name])
            continue
        path = (*(name for _, name in above[1:]), name)
        width = _WIDTHS[element[1]] if element[1] < len(_WIDTHS) else 0
        yield _Leaf(path, element[2] if element[1] == _FIXED else width)


def _count(data: bytes, leaf: _Leaf, chunk: dict[int, Any], room: Room, pages: Room) -> bool:
    """Take what a column of a group takes; tell whether it is one to be read as a dictionary."""
    metadata = chunk[3]
    at = min(metadata[9], metadata.get(11) or metadata[9])
    end = at + metadata[7]
    if 1 in chunk or not 0 <= at <= end <= len(data):
        message = f"column {'.'.join(leaf.path)} lies outside of the file"
        raise ValueError(message)
    values = largest = 0
    while at < end:
        pages.take(1)
        head, begin = page_head(data, at, end)
        at = begin + head[3]
        if not (head[2] >= 0 and begin <= at <= end):
            message = f"a page of column {'.'.join(leaf.path)} is larger than the column"
            raise ValueError(message)
        room.take(head[2])
        kind: dict[int, Any] = head.get(5) or head.get(7) or head.get(8) or {}
        if _DELTA_BYTE_ARRAY in (kind.get(2), kind.get(4)):
            message = f"column {'.'.join(leaf.path)} is written as no export writes one"
            raise ValueError(message)
        if head[1] == _DICTIONARY_PAGE:
            largest = max(largest, head[2])
        else:
            values += kind.get(1, 0)
    room.take(max(values, metadata[5]) * (leaf.width + _BESIDE_VALUE))
    if leaf.width or not largest:
        return False
    if len(leaf.path) == 1:
        return True
    # Inside of records and lists values are taken to be as large as they can be.
    room.take(values * largest)
    return False


def page_head(data: bytes, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return what the head of a page says, and where it ends."""
    reader = Thrift(data, at, end, Room(_HEAD_BYTES_MAX))
    try:
        return reader.fields(), reader.at
    except TooLargeError as error:
        message = f"the head of a page at byte {at} is larger than any that an export writes"
        raise ValueError(message) from error
