"""How a query comes along is told once a batch, and at the end."""

from streaming_jobs.jobs.progress import BatchProgress, Progress


def test_batch_is_told_once():
    progress = Progress()
    assert (
        progress.line(BatchProgress(0, 1500, 0.5)) == "batch 0: 1,500 rows in 0.5 s, 3,000 a second"
    )
    assert progress.line(BatchProgress(0, 1500, 0.5)) is None


def test_batch_without_rows_is_not_told():
    progress = Progress()
    assert progress.line(BatchProgress(0, 0, 0.5)) is None
    assert progress.line(BatchProgress(0, 3, 0.0)) == "batch 0: 3 rows in 0.0 s"


def test_end_counts_what_was_told():
    progress = Progress()
    progress.line(BatchProgress(4, 1000, 1))
    assert progress.closing(is_asked=False) == "done, all that was there: 1,000 rows in 1 batch"
    progress.line(BatchProgress(5, 1000, 1))
    assert progress.closing(is_asked=True) == "done, asked to stop: 2,000 rows in 2 batches"


def test_end_without_rows_says_so():
    assert Progress().closing(is_asked=False) == "done, all that was there: no new rows"
