"""Aligned text tables for people, plain enough for scripts.

Numbers are right-aligned. Control characters are escaped. On a terminal, lines are cut to its width
if that leaves the last column, mostly the longest, some room; else each row is a block with a line
for each column. There are no colours.
"""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

_GAP: Final = "  "
# Most characters of a cut line for each cell, combining accents among them.
_CHARACTERS_A_CELL: Final = 4
# A line has at least this much of the last column.
_LAST_CELLS_MIN: Final = 24
# A cell of a block fills at most this many lines of a terminal.
_CELL_LINES_MAX: Final = 8
Cell = str | int | None


class AlignedTable:
    """Formats rows as lines; a column's width grows with its values and never shrinks."""

    def __init__(self, columns: Sequence[str], *, is_cut: bool = True) -> None:
        """Format rows of these columns; the first lines begin with a header.

        Args:
            columns: Their names.
            is_cut: Whether lines are cut where standard output is a terminal.
        """
        self._names = [_printable(name) for name in columns]
        self._has_head = False
        self._widths = [_width(name) for name in self._names]
        self._is_number = [False] * len(columns)
        is_cut = is_cut and sys.stdout.isatty()
        self._cut_at = shutil.get_terminal_size().columns if is_cut else None
        # Once rows did not fit a line, later rows are blocks too.
        self._is_by_block = False

    def lines(self, rows: Sequence[Sequence[Cell]]) -> list[str]:
        """Return the lines of rows; None is printed as `-`."""
        cells = [["-" if value is None else _printable(value) for value in row] for row in rows]
        for index, column in enumerate(zip(*cells, strict=True)):
            self._widths[index] = max(self._widths[index], *map(_width, column))
            self._is_number[index] |= any(type(row[index]) is int for row in rows)
        self._is_by_block |= bool(rows) and not self._fits()
        if self._is_by_block:
            self._has_head = True
            return [line for row in cells for line in self._block(row)]
        head = [] if self._has_head else [self._names]
        self._has_head = True
        return [self._line(row) for row in (*head, *cells)]

    def _fits(self) -> bool:
        """Tell whether a row fits a line, its last column cut."""
        if self._cut_at is None or not self._widths:
            return True
        *others, last = self._widths
        before = sum(others) + len(_GAP) * len(others)
        return before + min(last, _LAST_CELLS_MIN) <= self._cut_at

    def _block(self, cells: list[str]) -> list[str]:
        """Return a row as a line for each column, and an empty line."""
        width = max(map(_width, self._names))
        pairs = zip(self._names, cells, strict=True)
        return [
            *(
                self._cut(_padded(name, width) + _GAP + text, _CELL_LINES_MAX)
                for name, text in pairs
            ),
            "",
        ]

    def _line(self, cells: list[str]) -> str:
        padded = []
        for text, width, is_number in zip(cells, self._widths, self._is_number, strict=True):
            space = " " * (width - _width(text))
            padded.append(space + text if is_number else text + space)
        return self._cut(_GAP.join(padded))

    def _cut(self, text: str, lines: int = 1) -> str:
        line = text.rstrip()
        if self._cut_at is None:
            return line
        cells = self._cut_at * lines
        line = line[: cells * _CHARACTERS_A_CELL]
        if cell_len(line) <= cells:
            return line
        return set_cell_size(line, cells - 1).rstrip() + "…"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _printable(value: str | int) -> str:
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
