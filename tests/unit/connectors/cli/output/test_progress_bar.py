"""What a terminal shows of work that takes long."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.cli.output.progress_bar import how_far
from connectors.cli.output.progress_line import QueryLine, RowsLine
from storage_core import Stream, StreamOptions
from storage_core.testing import ManualClock


def test_line_of_a_query_is_drawn_once_it_is_waited_for_and_taken_away():
    screen, clock = io.StringIO(), ManualClock()
    line = QueryLine(screen, clock)
    line.tell(1.0)
    line.hide()
    assert screen.getvalue() == ""
    clock.advance(2)
    line.tell(50.0)
    assert screen.getvalue() == "\r\x1b[K[############............]  50%  2 s"
    clock.advance(0.2)
    line.tell(-1.0)
    assert screen.getvalue().endswith("\r\x1b[K[........................]       2 s")
    line.hide()
    line.tell(60.0)
    assert screen.getvalue().endswith(" s\r\x1b[K")


def drawn_and_ended(total, *, seconds):
    screen, clock = io.StringIO(), ManualClock()
    line = RowsLine(screen, clock, total)
    clock.advance(seconds)
    line.add(500)
    drawn = screen.getvalue()
    line.end()
    return drawn, screen.getvalue()


@pytest.mark.parametrize(
    ("total", "text"),
    [(1000, "[############............]  50%  500 rows, 250/s"), (0, "500 rows, 250/s")],
)
def test_line_of_rows_is_drawn_once_they_are_waited_for_and_cleared(total, text):
    assert drawn_and_ended(total, seconds=0.1) == ("", "")
    drawn, ended = drawn_and_ended(total, seconds=2)
    assert drawn == f"\r\x1b[K{text}"
    assert ended == f"{drawn}\r\x1b[K"


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (0, 3_000_000, "0 of 3,000,000 rows"),
        (1, 1, "1 of 1 row"),
        (7, 5, "7 of 7 rows"),
        (8_192, None, "8,192 rows"),
    ],
)
def test_bar_says_how_many_of_how_many(done, total, said):
    assert how_far(done, total, "row") == said


# One process for all: each would import for half a second.
PROGRAM = """
import json, sys
from connectors.cli.main import outcome

codes = []
for arguments in json.loads(sys.argv[1]):
    codes.append(outcome(arguments))
    sys.stderr.write("\\r\\n---\\r\\n")
    sys.stderr.flush()
sys.exit(any(codes))
"""


def drawn(commands):
    """Return the lines that each command draws on a terminal of 80 columns."""
    owner, terminal = pty.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps([[*map(str, command)] for command in commands])],
        cwd=Path(__file__).parents[5],
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm"},
        stderr=terminal,
        stdout=subprocess.DEVNULL,
    )
    os.close(terminal)
    pieces = []
    try:
        while piece := os.read(owner, 65_536):
            pieces.append(piece)
    except OSError:
        # So a terminal ends on Linux.
        pass
    finally:
        os.close(owner)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(pieces).decode())
    assert ran.wait() == 0, text
    return [re.split(r"[\r\n]+", one) for one in text.split("---")[:-1]]


def test_bars_have_a_total_and_fit_80_columns(tmp_path):
    root, away = tmp_path / "root", tmp_path / "away"
    with Stream.create(root, "orders", StreamOptions(shards=1)) as stream:
        for number in range(100):
            stream.append(number, 1, b"x")
    screens = drawn(
        [
            ("seal", root, "orders"),
            ("trim", root, "orders"),
            ("verify", root, "orders"),
            ("export", root, "orders", "--output", away),
            ("import", tmp_path / "back", away, "orders"),
        ]
    )
    assert len(screens) == 5
    for lines in screens:
        assert all(len(line) <= 80 for line in lines)
        assert any("0 of 100 rows" in line for line in lines)
