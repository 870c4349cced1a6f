"""A directory that batches land in: each once, wherever its publication stops."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import CorruptionError, ForeignDataError, InvalidRequestError, UnavailableError
from streaming_jobs.jobs.landing import OWN, Landing, Owner
from tests.children import run_script

OWNER = Owner("events", "one", "day", None)
DAYS = ("day=2026-11-22", "day=2026-11-23")
# The calls of the file system that a publication is made of.
CALLS = ("fsync", "rename", "unlink")


def stage(landing: Landing, batch: int, rows: int = 4) -> None:
    """Stage rows of two days as Spark's writer does, a file of each."""
    for number, day in enumerate(DAYS):
        folder = landing.staging / day
        folder.mkdir(parents=True, exist_ok=True)
        numbers = [batch * 1000 + number * 100 + at for at in range(rows)]
        pq.write_table(pa.table({"number": numbers}), folder / f"part-{number}.parquet")


def landed(into: Path) -> list[Any]:
    """Return the numbers that a reader finds."""
    files = [file for file in into.glob("*/*.parquet") if not file.parent.name.startswith("_")]
    return sorted(n for file in files for n in pq.read_table(file).column("number").to_pylist())


def numbers(batches: int, rows: int = 4) -> list[int]:
    return sorted(
        batch * 1000 + number * 100 + row
        for batch in range(batches)
        for number in range(len(DAYS))
        for row in range(rows)
    )


def land(landing: Landing, batch: int, rows: int = 4) -> list[Path]:
    """Land a batch of the offsets [10 * batch, 10 * batch + 10), unless it has."""
    if landing.has_landed({0: 10 * batch}, {0: 10 * batch + 10}):
        return []
    stage(landing, batch, rows)
    return landing.publish({0: 10 * batch + 10})


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    made = Landing(tmp_path / "lake")
    made.claim(OWNER)
    return made


def test_batch_that_is_not_the_next_is_refused(landing):
    for batch in range(3):
        land(landing, batch)
    for batch in (0, 1, 4):
        with pytest.raises(ForeignDataError, match="checkpoint was set back, or is another one"):
            land(landing, batch)
    land(landing, 3)
    assert landed(landing.into) == numbers(4)


def test_checkpoint_that_is_ahead_of_an_empty_directory_is_refused(landing):
    assert not landing.has_landed({0: 70}, {0: 80}, batch=0)
    with pytest.raises(ForeignDataError, match=r"nothing has landed in .*, and the checkpoint has"):
        landing.has_landed({0: 70}, {0: 80}, batch=1)


def test_shard_that_came_since_begins_where_it_was_born(landing):
    land(landing, 0)
    assert not landing.has_landed({0: 10, 5: 700}, {0: 20, 5: 710})


def test_batch_of_no_rows_lands_too(landing):
    landing.staging.mkdir(parents=True)
    assert landing.publish({0: 10}) == []
    assert landing.has_landed({0: 0}, {0: 10})


def test_second_job_waits_for_the_first_and_is_told(landing, monkeypatch):
    monkeypatch.setattr("streaming_jobs.jobs.landing._LOCK_WAIT_S", 0.01)
    with (
        landing.lock(),
        pytest.raises(UnavailableError, match=f"another job lands in {landing.into}"),
    ):
        landing.lock()
    landing.lock().release()


def test_directory_that_was_moved_away_is_told(landing):
    landing.into.rename(landing.into.with_name("moved"))
    with pytest.raises(UnavailableError, match="the directory cannot be locked: No such file"):
        landing.lock()


def test_directory_that_another_stream_took_meanwhile_is_refused(tmp_path, monkeypatch):
    landing = Landing(tmp_path / "lake")
    usual = landing.lock

    def taken():
        monkeypatch.undo()
        Landing(tmp_path / "lake").claim(Owner("orders", "two", "day", None))
        return usual()

    monkeypatch.setattr(landing, "lock", taken)
    with pytest.raises(ForeignDataError, match="stream 'orders' lands in"):
        landing.claim(OWNER)


def killed_at(into: Path, call: str, number: int) -> bool:
    """Publish batch 1 in a process that is killed before a call; tell whether it came so far."""
    script = f"""
import os, signal
from pathlib import Path
from tests.unit.streaming_jobs.jobs.test_landing import land
from streaming_jobs.jobs.landing import Landing
landing = Landing(Path({str(into)!r}))
count = 0
usual = getattr(os, {call!r})
def counted(*args, **options):
    global count
    if count == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    return usual(*args, **options)
setattr(os, {call!r}, counted)
land(landing, 1)
"""
    ended = run_script(script)
    assert ended in (0, -9)
    return ended == -9


@pytest.mark.parametrize("call", CALLS)
def test_kill_before_any_call_of_the_file_system_lands_a_batch_once(tmp_path, call):
    for number in range(40):
        landing = Landing(tmp_path / f"{call}-{number}")
        landing.claim(OWNER)
        land(landing, 0)
        was_killed = killed_at(landing.into, call, number)
        # As the next start does it, and Spark: what is not decided comes again.
        landing.recover()
        land(landing, 1)
        assert landed(landing.into) == numbers(2)
        assert landing.landed() == {0: 20}
        if not was_killed:
            assert number > 0, f"a publication calls {call}"
            return
    pytest.fail(f"a publication calls {call} forty times")


def test_file_of_a_decided_batch_that_is_gone_is_told(landing):
    stage(landing, 0)
    landing._decide(1, {0: 10})
    assert (landing.into / OWN / "list.json").exists()
    next(landing.staging.rglob("*.parquet")).unlink()
    with pytest.raises(CorruptionError, match="batch 1 was decided, and its file is gone"):
        landing.recover()


def test_list_of_a_batch_that_is_done_is_taken_away_wherever_its_files_went(landing):
    stage(landing, 0)
    landing._decide(1, {0: 10})
    left = landing.into / OWN / "list.json"
    text = left.read_bytes()
    # Killed before the list was taken away; then somebody moves files on.
    for file in landing._finish():
        file.unlink()
    left.write_bytes(text)
    landing.recover()
    assert not left.exists()
    assert landing.landed() == {0: 10}


def test_directory_of_another_stream_is_refused(landing):
    with pytest.raises(ForeignDataError, match="stream 'events' lands in"):
        landing.claim(Owner("orders", "two", "day", None))
    with pytest.raises(ForeignDataError, match="re-created since"):
        landing.claim(Owner("events", "two", "day", None))


def test_directory_parted_otherwise_is_refused(landing):
    with pytest.raises(InvalidRequestError, match="partitioned by day, not by hour"):
        landing.claim(Owner("events", "one", "hour", None))


def test_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InvalidRequestError, match=r"holds 'mine.txt', which did not land here"):
        Landing(tmp_path).claim(OWNER)


def test_other_schema_is_noted(landing):
    landing.claim(Owner("events", "one", "day", '"int"'))
    assert landing.owner() == Owner("events", "one", "day", '"int"')


def test_note_that_was_damaged_is_told(landing):
    note = landing.into / OWN / "landing.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"stream": "orders"}))
    with pytest.raises(CorruptionError, match="does not match its checksum"):
        landing.owner()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_that_may_not_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidRequestError, match="give this process the right to write here"):
        Landing(tmp_path / "lake").claim(OWNER)


def test_place_that_is_a_file_is_told(tmp_path):
    (tmp_path / "lake").touch()
    with pytest.raises(InvalidRequestError, match="lake is a file; name a directory"):
        Landing(tmp_path / "lake").claim(OWNER)


def test_batch_lands_in_the_directories_of_its_days(landing):
    files = land(landing, 0)
    assert [file.parent.name for file in files] == list(DAYS)
    assert landed(landing.into) == numbers(1)
    assert landing.landed() == {0: 10}


def test_what_was_staged_and_not_decided_is_swept(landing):
    stage(landing, 0)
    landing.recover()
    assert not landing.staging.exists()
    assert not landing.has_landed({0: 0}, {0: 10})
    assert landed(landing.into) == []


def test_nothing_is_left_of_a_batch_beside_its_files(landing):
    land(landing, 0)
    assert not landing.staging.exists()
    left = {file.name for file in (landing.into / OWN).iterdir()}
    assert left == {"landing.json", "done.json"}
