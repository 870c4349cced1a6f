"""Goal: who opens a stream while a shard's log is replaced has the old log or the new one, whole.

Method: the log is archived before each look of an opener at the disk, and again and again beside
openers of every kind. Each log's rows have its own number for their id, so that a mix shows. They
may be told that a log has ended, by its typed error; never of damage.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from traceback import format_exception

import pytest

from storage_core import (
    CorruptionError,
    ForeignDataError,
    ShardLockedError,
    StreamReader,
    archived_shard_directory,
    archived_shards,
)
from tests.log.resets import OPENERS, ROWS, STEPS, ResetCopy
from tests.log.topics import NAME

RESETS = 12


@pytest.fixture
def copy(tmp_path):
    return ResetCopy(tmp_path)


@pytest.mark.parametrize("call", OPENERS)
@pytest.mark.parametrize("step", STEPS)
def test_opener_that_has_read_where_a_log_was_has_that_one_or_the_next(
    copy, call, step, monkeypatch
):
    place, name = STEPS[step]
    usual, has_come = getattr(place, name), Event()

    def reset_and_go_on(*arguments, **named):
        if not has_come.is_set():
            has_come.set()
            copy.reset()
        return usual(*arguments, **named)

    monkeypatch.setattr(place, name, reset_and_go_on)
    OPENERS[call](copy)


@pytest.mark.parametrize("left", ["nothing", "what a reader leaves", "its own directory"])
def test_archived_log_that_leaves_under_a_reader_is_no_damage(copy, left):
    lineage, place = archived_log(copy)
    with StreamReader.open(copy.root, NAME, archived=lineage) as reader:
        assert reader.committed() == {0: len(ROWS)}
        place.rename(copy.root / "elsewhere")
        if left != "nothing":
            place.mkdir()
        if left == "what a reader leaves":
            (place / "db").mkdir()
            (place / "db" / "rocksdict-config.json").touch()
        with pytest.raises(ForeignDataError, match="moved or removed while it was open"):
            reader.committed()


def test_archived_log_that_loses_its_marker_under_a_reader_is_damaged(copy):
    lineage, place = archived_log(copy)
    with StreamReader.open(copy.root, NAME, archived=lineage) as reader:
        (place / "marker").unlink()
        with pytest.raises(CorruptionError, match="marker is missing"):
            reader.committed()


def test_openers_beside_resets_are_never_told_of_damage(copy):
    is_over = Event()
    damage: list[str] = []

    def open_again_and_again(name: str) -> None:
        while not is_over.is_set():
            try:
                OPENERS[name](copy)
            except (ForeignDataError, ShardLockedError):
                # The log that it had has ended; or two writers have met.
                continue
            except Exception as error:  # noqa: BLE001 - what a thread raises is seen below
                damage.append("".join(format_exception(error)))

    threads = [Thread(target=open_again_and_again, args=(name,)) for name in OPENERS]
    for thread in threads:
        thread.start()
    try:
        for _ in range(RESETS):
            done_once_free(copy.reset)
            done_once_free(copy.fill)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert "\n".join(damage) == ""


def archived_log(copy: ResetCopy) -> tuple[str, Path]:
    """Archive the one log, and return its lineage and where it lies by then."""
    copy.reset()
    (log,) = archived_shards(copy.root, NAME)
    place = archived_shard_directory(copy.root, NAME, log)
    assert place is not None
    return log.lineage, place


def done_once_free(call: Callable[[], None]) -> None:
    """Do what another writer's lock may refuse."""
    while True:
        try:
            call()
        except ShardLockedError:
            continue
        else:
            return
