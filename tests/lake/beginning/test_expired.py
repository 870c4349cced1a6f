"""What expired in the table's owner stays so in the log that begins from the table."""

from pathlib import Path

import pytest

from storage_core import Environment
from storage_core.lake import check_lake, publish_stream, repair_lake
from storage_core.testing import ManualClock
from tests.lake.beginning.beginning_lab import BORN, NAME, SHARD, BeginningLab


@pytest.fixture(params=["none", "dictionary"])
def any_lab(request, make_lab):
    return make_lab(key_mode=request.param)


def expire(lab: BeginningLab, rows: int) -> None:
    """Let all but the last rows expire; no others come, and the table lacks their files then."""
    lab.expire(rows)
    lab.owner.stream.maintain()
    assert lab.publish().files_removed > 0


def notes_alone(lab: BeginningLab) -> list[Path]:
    """Return the heads runs that have no address."""
    directory = lab.target.directory
    assert directory is not None
    runs = (directory / "_shardlog" / f"shard={SHARD}").iterdir()
    return [run for run in runs if len(set(run.name.split("-")[1:3])) == 1]


def test_rows_that_expired_behind_the_last_ones_stay_so(any_lab):
    any_lab.published(150, 150, 150)
    expire(any_lab, 100)
    any_lab.lose_owner()
    any_lab.take_over()
    any_lab.check()
    assert any_lab.problems() == []
    any_lab.append(100)
    any_lab.check()
    assert any_lab.lake_problems() == []


def test_all_rows_may_have_expired(any_lab):
    any_lab.published(150, 150)
    expire(any_lab, -100_000)
    any_lab.lose_owner()
    any_lab.take_over()
    any_lab.check()
    any_lab.append(100)
    any_lab.check()
    assert any_lab.problems() == []


def test_damaged_notes_of_the_owner_before_are_written_again_by_the_next(lab):
    lab.published(150, 150, 150)
    expire(lab, 100)
    lab.take_over()
    publish_stream(lab.owner.root, NAME, lab.target)
    (notes,) = notes_alone(lab)
    data = bytearray(notes.read_bytes())
    data[len(data) // 2] ^= 1
    notes.write_bytes(data)
    (problem,) = check_lake(lab.owner.root, NAME, lab.target, read=True).problems
    assert (problem.kind, Path(problem.file or "").name) == ("heads", notes.name)
    done = repair_lake(lab.owner.root, NAME, lab.target, read=True)
    assert (done.runs_written, done.is_clean) == (1, True)
    lab.take_over()
    lab.check()


def test_notes_of_what_expired_do_not_gather(lab):
    lab.published(150, 150, 150)
    for rows in (300, 200, 100):
        expire(lab, rows)
        assert len(notes_alone(lab)) == 1
    lab.published(50)
    assert notes_alone(lab) == []
    lab.lose_owner()
    lab.take_over()
    lab.check()


def test_rows_ahead_of_the_clock_stay_in_their_part(lab):
    lab.published(150, 150, 150)
    expire(lab, 100)
    # What came beside them in a part goes with them.
    assert set(lab.witness_addresses()) <= set(lab.addresses())
    assert BORN < min(lab.witness_addresses()) < lab.start()


def test_rows_ahead_of_the_clock_whose_blocks_expired_unsealed_are_in_the_table(any_lab):
    any_lab.append(150)
    any_lab.expire(0)
    any_lab.append(100)
    any_lab.owner.stream.seal()
    any_lab.publish()
    assert set(any_lab.witness_addresses()) <= set(any_lab.addresses())
    assert BORN < min(any_lab.addresses()) < any_lab.start()
    any_lab.lose_owner()
    any_lab.take_over()
    any_lab.check()
    assert any_lab.sql(any_lab.owner) == any_lab.sql(any_lab.witness)
    assert [*any_lab.problems(), *any_lab.lake_problems()] == []


def test_rows_that_expired_since_the_last_publish_do_not_come_back(any_lab):
    any_lab.published(150, 150, 150)
    any_lab.expire(100)
    any_lab.lose_owner()
    now = ManualClock(wall_ns=any_lab.expired_at * 10**6)
    any_lab.take_over(environment=Environment(now), expire=True)
    any_lab.check()
    any_lab.append(100)
    any_lab.expire(150)
    any_lab.owner.stream.maintain()
    any_lab.check()
    assert any_lab.publish().files_removed > 0
    assert [*any_lab.problems(), *any_lab.lake_problems()] == []


def test_nothing_expires_by_a_takeover_unless_that_is_wanted(any_lab):
    any_lab.published(150)
    any_lab.lose_owner()
    any_lab.take_over(environment=Environment(ManualClock(wall_ns=2**62)))
    any_lab.check()
