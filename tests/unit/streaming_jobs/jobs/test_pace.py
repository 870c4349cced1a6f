"""How a query comes along is told once a batch, and at the end."""

from streaming_jobs.jobs.pace import BatchPace, Pace


def test_batch_is_told_once():
    pace = Pace()
    assert pace.line(BatchPace(0, 1500, 0.5)) == "batch 0: 1,500 rows in 0.5 s, 3,000 a second"
    assert pace.line(BatchPace(0, 1500, 0.5)) is None


def test_batch_without_rows_is_not_told():
    pace = Pace()
    assert pace.line(BatchPace(0, 0, 0.5)) is None
    assert pace.line(BatchPace(0, 3, 0.0)) == "batch 0: 3 rows in 0.0 s"


def test_end_counts_what_was_told():
    pace = Pace()
    pace.line(BatchPace(4, 1000, 1))
    assert pace.closing(is_asked=False) == "done, all that was there: 1,000 rows in 1 batch"
    pace.line(BatchPace(5, 1000, 1))
    assert pace.closing(is_asked=True) == "done, asked to stop: 2,000 rows in 2 batches"


def test_end_without_rows_says_so():
    assert Pace().closing(is_asked=False) == "done, all that was there: no new rows"
