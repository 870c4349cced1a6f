"""What a later shardlog wrote beside a table is refused by one line, and stays as it is."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from storage_core import UnsupportedFormatError
from storage_core.lake import check_lake
from storage_core.lake.heads import run_notes
from tests.lake.heads.heads_lab import BORN, FULL, HeadsLab
from tests.log.topics import NAME

LATER = run_notes.FORMAT + 1
REFUSED = f"of format {LATER}, .* a later shardlog wrote it; install that one here"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Return a context in which a later shardlog writes runs."""

    @contextmanager
    def writing() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(run_notes, "FORMAT", LATER)
            yield

    return writing


def expire_some(lab: HeadsLab) -> None:
    lab.copy.stream.alter(records_max=20)
    lab.copy.stream.expire()
    lab.publish()


def test_run_of_a_later_shardlog_is_refused(lab: HeadsLab, later) -> None:
    lab.publish_each(BORN, 120)
    with later():
        lab.publish_each(120, 140)
    with pytest.raises(UnsupportedFormatError, match=REFUSED):
        lab.read()


def test_what_a_later_shardlog_noted_of_expired_rows_is_refused(lab: HeadsLab, later) -> None:
    lab.publish_each(BORN, 120, 140, 160)
    with later():
        expire_some(lab)
    with pytest.raises(UnsupportedFormatError, match=REFUSED):
        lab.read()


def test_repair_leaves_what_a_later_shardlog_wrote(lab: HeadsLab, later) -> None:
    with later():
        lab.publish_each(BORN, 120, 140)
    before = lab.paths()
    assert lab.repair() == 0
    lab.publish_each(140, *(140 + end - BORN for end in FULL[1:]))
    assert set(before) <= set(lab.paths())


def test_check_sends_nobody_to_a_repair_that_does_nothing(lab: HeadsLab, later) -> None:
    with later():
        lab.publish_each(BORN, 120)
    (problem,) = check_lake(lab.copy.root, NAME, lab.target, read=True).problems
    assert "a later shardlog wrote it" in problem.message
    assert "--repair" not in problem.message
