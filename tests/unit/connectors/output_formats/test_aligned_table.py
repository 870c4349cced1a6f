"""Aligned tables: columns line up, nothing in them commands the terminal."""

import os
from contextlib import contextmanager, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from connectors.output_formats.aligned_table import AlignedTable

cells = st.none() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=10)
tables = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=1))


@contextmanager
def on_a_terminal():
    """Let standard output be a terminal."""
    controlling, controlled = os.openpty()
    with os.fdopen(controlled, "w") as output, redirect_stdout(output):
        yield
    os.close(controlling)


@given(tables)
def test_no_line_holds_what_a_terminal_could_obey(rows):
    for line in AlignedTable([""] * len(rows[0])).lines(rows):
        assert line.isprintable()


def test_numbers_stand_to_the_right_and_texts_to_the_left():
    assert AlignedTable(["number", "text", "end"]).lines([[5, "a", 1], [12345678, "bcdef", 2]]) == [
        "  number  text   end",
        "       5  a        1",
        "12345678  bcdef    2",
    ]


def test_later_lines_keep_the_widths_of_earlier_ones():
    table = AlignedTable(["a", "b"])
    table.lines([["wide cell", "x"]])
    assert table.lines([["y", "z"]]) == ["y          z"]


def test_wide_characters_take_the_room_they_need():
    assert AlignedTable(["a", "b"]).lines([["温度", "x"], ["1234", "y"]])[1:] == [
        "温度  x",
        "1234  y",
    ]


@pytest.mark.parametrize(
    "text", ["x" * 100, "温" * 100, "e\u0301" * 100], ids=["plain", "wide", "accents"]
)
def test_on_a_terminal_lines_are_cut_to_its_width(text, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with on_a_terminal():
        line = AlignedTable(["a", "b"]).lines([[1, text]])[1]
    assert line.endswith("…")
    assert cell_len(line) <= 40


def test_on_a_terminal_too_narrow_for_a_row_each_column_has_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with on_a_terminal():
        table = AlignedTable(["number", "payload"])
        lines = table.lines([[12345, "x" * 30], [6, "y"]])
        assert table.lines([[7, "z"]]) == ["number   7", "payload  z", ""]
        (_, long, _) = table.lines([[8, "x" * 1000]])
    assert lines == [
        "number   12345",
        "payload  " + "x" * 30,
        "",
        "number   6",
        "payload  y",
        "",
    ]
    assert (long[-1], cell_len(long)) == ("…", 8 * 20)
