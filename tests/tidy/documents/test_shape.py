"""Documents can be read: no cell of a table is long, and some pages have a limit.

What is longer than a cell may be is a list or a section.
"""

import re
from pathlib import Path

import pytest

from tests.tidy.documents.tables import BETWEEN_CELLS
from tests.tidy.tree import ROOT, files, text_of

CELL_CHARACTERS_MAX = 200
# What it is for is one page, as is what is promised; how a record travels is read at one sitting.
LINES_MAX = {
    "README.md": 150,
    "docs/ARCHITECTURE.md": 250,
    "docs/GUARANTEES.md": 130,
    "docs/OPERATIONS.md": 450,
}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A reader who knows Kafka, RocksDB, Parquet and Spark needs no more words than these.
WORDS_MAX = 60


def long_cells(text: str) -> list[str]:
    """Return how long each cell is that is too long, and where it begins."""
    rows = (line for line in FENCED.sub("", text).splitlines() if line.lstrip().startswith("|"))
    cells = (cell.strip() for row in rows for cell in BETWEEN_CELLS.split(row))
    return [f"{len(one)}: {one[:40]}…" for one in cells if len(one) > CELL_CHARACTERS_MAX]


def _documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def test_no_cell_of_a_table_is_too_long() -> None:
    cells_of = {path.as_posix(): long_cells(text_of(path)) for path in _documents()}
    assert {path: cells for path, cells in cells_of.items() if cells} == {}


@pytest.mark.parametrize("document", LINES_MAX)
def test_page_stays_within_its_lines(document: str) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES_MAX[document]


def test_glossary_is_short_and_has_the_field_s_word_for_each() -> None:
    lines = (ROOT / "docs/GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    words = [line for line in lines if line.startswith("| ") and not line.startswith("| word")]
    assert 0 < len(words) <= WORDS_MAX
    assert [line for line in words if line.count(" | ") != 2] == []


def test_long_cell_is_found() -> None:
    cell = "x" * CELL_CHARACTERS_MAX
    assert long_cells(f"| a | b |\n|---|---|\n| {cell} | `a \\| b` |\n\n{cell}x\n") == []
    assert long_cells(f"| a | {cell}x |") == [f"201: {'x' * 40}…"]
    assert long_cells(f"```text\n| a | {cell}x |\n```\n") == []
