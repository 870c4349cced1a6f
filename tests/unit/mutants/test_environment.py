"""A mutant's copy has the environment of its tree by a link, and leaves nothing in it."""

from tests.mutants.watching import REPORT
from tests.spark.support.shared_classes import archive_place


def test_run_of_a_mutant_makes_no_archive_of_classes(monkeypatch) -> None:
    monkeypatch.setenv(REPORT, "report.jsonl")
    assert archive_place() is None
