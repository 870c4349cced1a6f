"""Goal: parts that another process makes are those that the writer makes, and its death costs none.

Method: real processes, which are killed between works and in the middle of one.
"""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
    PartBuilder,
    Stream,
    StreamOptions,
    StreamReader,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.descriptors import descriptors_left
from tests.log.parts.parts_lab import NAME, PartsLab
from tests.waiting import await_that

REPOSITORY = Path(__file__).parents[3]
OWNER = """
import sys
from storage_core import PartBuilder, Stream

with Stream.open(sys.argv[1], sys.argv[2]) as stream, PartBuilder() as builder:
    stream.maintain(builder)
    print(builder.process_id, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode, seal_rows=20)
    yield lab
    lab.stream.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def builder(clock):
    with PartBuilder(clock) as builder:
        yield builder


def state_of(process_id: int | None) -> str:
    """Return how a process is, by its letter; that of one that has ended where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def is_there(process_id: int) -> bool:
    return state_of(process_id) != "Z"


def kill(builder: PartBuilder) -> None:
    assert builder.process_id is not None
    os.kill(builder.process_id, signal.SIGKILL)


def kept_bytes(builder: PartBuilder) -> int:
    """Return what a process has of memory that no file backs."""
    lines = Path(f"/proc/{builder.process_id}/status").read_text().splitlines()
    reported = dict(line.split(":", 1) for line in lines)
    return int(reported["RssAnon"].split()[0]) * 1024


def test_streams_stay_where_they_were_opened_when_the_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with PartBuilder() as builder, Stream.create("data", "s", StreamOptions(seal_rows=1)) as stream:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        stream.append(1, 1, b"a")
        stream.commit()
        assert stream.maintain(builder).rows_sealed == 1
        monkeypatch.chdir(tmp_path)
        with StreamReader.open("data", "s") as reader:
            monkeypatch.chdir(tmp_path / "elsewhere")
            stream.trim()
            assert reader.read(1)["payload"].to_pylist() == [b"a"]


def test_what_a_step_took_is_given_back(root, builder):
    remaining = []
    with Stream.create(root, "large", StreamOptions(shards=1, seal_rows=1)) as stream:
        for rows in (1000, 300_000):
            columns: dict[str, Any] = {
                "primary": np.arange(rows),
                "secondary": np.zeros(rows, np.int32),
                "payload": pa.array([bytes(100)] * rows, pa.binary()),
            }
            stream.append_batch(pa.RecordBatch.from_pydict(columns))
            stream.commit()
            assert stream.maintain(builder).rows_sealed == rows
            remaining.append(kept_bytes(builder))
    # Held in memory they come to 50 MB, sorted to as much again.
    assert remaining[1] - remaining[0] < 20 * 2**20


def test_parts_have_each_row_once_as_it_came(lab, builder):
    rng = np.random.default_rng(3)
    joined = 0
    for step in range(6):
        lab.append(rng, 300)
        report = lab.stream.maintain(builder)
        assert report.rows_sealed == 300
        joined += report.rows_compacted
        if step == 3:
            lab.reopen()
    assert joined
    assert lab.rows_of_parts() == lab.rows()
    assert lab.stream.verify().problems == ()
    lab.stream.trim()
    assert lab.rows_of_parts() == lab.rows()


def test_it_begins_with_the_first_work_and_stays_for_the_next(lab, builder):
    lab.stream.maintain(builder)
    assert builder.process_id is None
    processes: set[int | None] = set()
    for _ in range(2):
        lab.append(np.random.default_rng(4), 100)
        lab.stream.maintain(builder)
        processes.add(builder.process_id)
    assert len(processes) == 1
    assert None not in processes


def test_death_is_told_in_a_line_and_the_next_begins_after_a_while(lab, builder, clock):
    lab.append(np.random.default_rng(5), 100)
    lab.stream.maintain(builder)
    lab.append(np.random.default_rng(6), 100)
    kill(builder)
    with pytest.raises(
        UnavailableError, match=r"ended by signal 9; the next one starts in 1 s"
    ) as raised:
        lab.stream.maintain(builder)
    assert (raised.value.stream, raised.value.shard) == (NAME, 0)
    assert (builder.deaths, builder.is_paused) == (1, True)
    with pytest.raises(UnavailableError, match="died a moment ago"):
        lab.stream.maintain(builder)
    clock.advance(1)
    assert not builder.is_paused
    assert lab.stream.maintain(builder).rows_sealed == 100
    assert lab.rows_of_parts() == lab.rows()


def test_process_that_may_open_no_more_files_begins_none_and_tells_whose_parts_wait(lab, builder):
    lab.append(np.random.default_rng(5), 10)
    lab.stream.seal()
    lab.append(np.random.default_rng(6), 100)
    with (
        descriptors_left(2),
        pytest.raises(UnavailableError, match=r"cannot start: .*Too many open files") as raised,
    ):
        lab.stream.maintain(builder)
    assert (raised.value.stream, raised.value.shard) == (NAME, 0)
    assert (builder.deaths, builder.process_id) == (0, None)
    assert lab.stream.maintain(builder).rows_sealed == 100
    assert lab.rows_of_parts() == lab.rows()


def test_end_of_its_owner_ends_it(lab):
    lab.append(np.random.default_rng(7), 100)
    lab.stream.close()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(lab.root), NAME],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    with owner:
        assert owner.stdout is not None
        process_id = int(owner.stdout.readline())
        assert is_there(process_id)
        owner.kill()
    await_that(lambda: not is_there(process_id), "the end of the process that makes parts")


def test_what_went_wrong_there_is_told_as_if_it_were_here(lab, builder):
    for step in range(5):
        lab.append(np.random.default_rng(step), 100)
        lab.stream.seal()
    lab.stream.parts()[0].path.write_bytes(b"no part")
    with pytest.raises(CorruptionError, match="`seal` with rebuild builds it again"):
        lab.stream.maintain(builder)
    assert builder.deaths == 0


def test_it_proves_blocks_before_they_go(root, key_mode, monkeypatch):
    lab = PartsLab(root, key_mode=key_mode, seal_rows=20, keep_hot=timedelta(microseconds=1))
    rng = np.random.default_rng(4)
    works: list[str] = []
    with lab.stream, PartBuilder() as builder:
        build = builder.build

        def listed(context, view, work):
            works.append(type(work).__name__)
            return build(context, view, work)

        monkeypatch.setattr(builder, "build", listed)
        for _ in range(3):
            lab.append(rng, 300)
            rows = lab.rows()
            assert lab.stream.maintain(builder).rows_trimmed == 300
            assert lab.rows() == rows
        assert works == ["SealWork", "ProveWork"] * 6
        assert lab.stream.verify().problems == ()


def test_blocks_of_damaged_parts_stay(root, builder):
    lab = PartsLab(root, seal_rows=20)
    with lab.stream:
        lab.append(np.random.default_rng(5), 300)
        lab.stream.seal()
        rows = lab.rows()
        part = lab.stream.parts()[0].path
        lab.stream.alter(keep_hot=timedelta(microseconds=1))
        whole = part.read_bytes()
        part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(CorruptionError, match="are not trimmed"):
            lab.stream.maintain(builder)
        assert builder.deaths == 0
        assert lab.rows() == rows
        part.write_bytes(whole)
        assert lab.stream.maintain(builder).rows_trimmed == 300
        assert lab.rows() == rows


class StopError(Exception):
    """What comes out of a signal handler."""


def interrupt_once_it_is_asked(builder: PartBuilder) -> None:
    """Interrupt the main thread as soon as an order lies in the pipe of a process that stands."""
    with Path(f"/proc/{builder.process_id}/fd/0").open("rb", buffering=0) as pipe:
        await_that(lambda: fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4) != b"\0" * 4, "an order")
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def test_what_was_interrupted_does_not_answer_what_is_asked_behind(lab, builder):
    def stop(*_: object) -> None:
        raise StopError

    lab.append(np.random.default_rng(15), 100)
    lab.stream.maintain(builder)
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        lab.append(np.random.default_rng(16), 100)
        process_id = builder.process_id
        os.kill(process_id, signal.SIGSTOP)
        # Until then one of its threads may take the order, and nobody would be interrupted.
        await_that(lambda: state_of(process_id) == "T", "the process to stand")
        interrupting = threading.Thread(target=interrupt_once_it_is_asked, args=(builder,))
        interrupting.start()
        with pytest.raises(StopError):
            lab.stream.maintain(builder)
        interrupting.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGCONT)
    lab.append(np.random.default_rng(17), 300)
    assert lab.stream.maintain(builder).rows_sealed == 400
    assert lab.rows_of_parts() == lab.rows()
    assert builder.deaths == 0


def test_closed_one_makes_nothing_and_leaves_no_process(lab, builder):
    lab.append(np.random.default_rng(8), 100)
    lab.stream.maintain(builder)
    process_id = builder.process_id
    builder.close()
    builder.close()
    assert not is_there(process_id)
    lab.append(np.random.default_rng(9), 100)
    with pytest.raises(ClosedError, match="the builder process is closed"):
        lab.stream.maintain(builder)
