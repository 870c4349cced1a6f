"""Aligned text tables for people, plain enough for scripts.

Numbers stand to the right. What a terminal could take for a command is escaped, and on a
terminal lines are cut to its width. Nothing is coloured.
"""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

_GAP: Final = "  "
# A cut line holds no more characters than this a cell, accents of their own among them.
_CHARACTERS_A_CELL: Final = 4


class AlignedTable:
    """Lines laid out by the widths of columns, which grow with what is shown, never shrink."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Lay out these columns; the first lines begin with their names."""
        self._head = [list(columns)]
        self._widths = [0] * len(columns)
        self._is_number = [False] * len(columns)
        self._cut_at = shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def lines(self, rows: Sequence[Sequence[str | int | None]]) -> list[str]:
        """Return the lines of rows; None is shown as `-`."""
        head, self._head = self._head, []
        cells = head + [["-" if value is None else _shown(value) for value in row] for row in rows]
        if not cells:
            return []
        self._is_number = [
            known or any(type(value) is int for value in column)
            for known, column in zip(self._is_number, _columns(rows, self._is_number), strict=True)
        ]
        self._widths = [
            max(width, *map(_width, column))
            for width, column in zip(self._widths, zip(*cells, strict=True), strict=True)
        ]
        return [self._line(row) for row in cells]

    def _line(self, cells: list[str]) -> str:
        padded = []
        for text, width, is_number in zip(cells, self._widths, self._is_number, strict=True):
            space = " " * (width - _width(text))
            padded.append(space + text if is_number else text + space)
        line = _GAP.join(padded).rstrip()
        if self._cut_at is None:
            return line
        line = line[: self._cut_at * _CHARACTERS_A_CELL]
        if cell_len(line) <= self._cut_at:
            return line
        return set_cell_size(line, self._cut_at - 1).rstrip() + "…"


def _columns(
    rows: Sequence[Sequence[str | int | None]], like: Sequence[object]
) -> Sequence[Sequence[str | int | None]]:
    return list(zip(*rows, strict=True)) if rows else [()] * len(like)


def _shown(value: str | int) -> str:
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
