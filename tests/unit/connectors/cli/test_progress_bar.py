"""What a terminal shows of work that takes long."""

import io

from connectors.cli.progress_bar import QueryLine
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
    line.tell(-1.0)
    assert screen.getvalue().endswith("\r\x1b[K[........................]       2 s")
    line.hide()
    line.tell(60.0)
    assert screen.getvalue().endswith(" s\r\x1b[K")


def test_nothing_is_drawn_where_nobody_looks():
    clock = ManualClock()
    line = QueryLine(None, clock)
    clock.advance(2)
    line.tell(50.0)
    line.hide()
