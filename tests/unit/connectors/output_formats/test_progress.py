"""The line that tells how far work has come."""

import io

from connectors.output_formats.progress import Progress
from storage_core.testing import ManualClock


def drawn_and_ended(total, *, seconds):
    paper, clock = io.StringIO(), ManualClock()
    progress = Progress(paper, clock, total)
    clock.advance(seconds)
    progress.add(500)
    drawn = paper.getvalue()
    progress.end()
    return drawn, paper.getvalue()


def test_work_that_is_done_at_once_shows_nothing():
    assert drawn_and_ended(1000, seconds=0.1) == ("", "")


def test_long_work_shows_a_bar_and_takes_it_away():
    drawn, ended = drawn_and_ended(1000, seconds=2)
    assert drawn == "\r\x1b[K[############............]  50%  500 rows, 250/s"
    assert ended.endswith("\r\x1b[K")


def test_rows_are_counted_where_no_total_is_known():
    drawn, _ = drawn_and_ended(0, seconds=2)
    assert drawn == "\r\x1b[K500 rows, 250/s"
