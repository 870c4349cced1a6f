"""Tables of the documents, read as rows of cells."""

import re
from collections.abc import Iterator

from tests.tidy.tree import ROOT

BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_BARE_NAME = re.compile(r"`([^`]+)`")


def page(name: str) -> str:
    """Return a document's text."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows_below(first_cell: str, text: str) -> Iterator[list[str]]:
    """Yield the rows of each table whose first column has this heading."""
    is_inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in BETWEEN_CELLS.split(line)[1:-1]]
        if not is_inside:
            is_inside = cells[:1] == [first_cell]
        elif not cells:
            is_inside = False
        elif not set(cells[0]) <= set("-:"):
            yield cells


def bare_name(cell: str) -> str:
    """Return the one name that a cell has between backticks, and nothing beside it."""
    match = _BARE_NAME.fullmatch(cell)
    assert match, f"{cell}: is not a bare name"
    return match[1]
