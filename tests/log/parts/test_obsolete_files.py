"""Goal: files of parts that were replaced stay for those who know of them, for a bounded time.

Method: many small parts are joined while somebody asks: DuckDB in the middle of an answer, a reader
in another process that must look again where files go at once. Time is turned by hand.
"""

import os
import resource
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cache, partial

import numpy as np
import pyarrow.parquet as pq
import pytest
from typing_extensions import override

from storage_core import ClosedError, Environment, Record, Stream, StreamReader, UnavailableError
from storage_core.sql import query_batches
from storage_core.testing import ManualClock
from tests.far_reader import FarReader
from tests.log.parts.parts_lab import NAME, PartsLab
from tests.log.readers import look_through

AT_ONCE = timedelta(0)
MINUTES_S = 15 * 60
REBUILD = partial(Stream.seal, rebuild=True)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def bench(make_bench, clock):
    """A stream of five parts that can be joined."""
    bench = make_bench(environment=Environment(clock=clock, has_index_worker=False), seal_rows=10)
    for first in range(0, 50, 10):
        bench.keep(range(first, first + 10))
        bench.stream.seal()
    return bench


def paths(bench):
    return [part.path for part in bench.stream.parts()]


def replaced(bench):
    """Join the parts; return the files of before."""
    before = paths(bench)
    assert bench.stream.compact().parts_obsolete == 5
    return before


def are_there(files):
    result = {file.exists() for file in files}
    assert len(result) == 1
    return result.pop()


def test_files_that_were_joined_stay_for_a_while_and_go_on_a_quiet_stream(bench, clock):
    files = replaced(bench)
    clock.advance(MINUTES_S - 1)
    bench.stream.maintain()
    assert sum(pq.read_table(file).num_rows for file in files) == 50
    clock.advance(1)
    assert bench.stream.maintain().is_idle
    assert not are_there(files)
    assert are_there(paths(bench))


def test_files_of_before_an_opening_go_in_their_time(bench, clock):
    files = replaced(bench)
    bench.reopen()
    bench.stream.maintain()
    assert are_there(files)
    clock.advance(MINUTES_S)
    bench.stream.maintain()
    assert not are_there(files)


@pytest.mark.parametrize("do", [REBUILD, Stream.compact, Stream.maintain])
def test_files_go_by_hand_and_where_a_stream_is_never_cold(bench, clock, do):
    files = replaced(bench)
    bench.stream.alter(never_cold=True)
    clock.advance(MINUTES_S)
    do(bench.stream)
    assert not are_there(files)


def test_files_go_at_once_where_they_need_not_stay(bench):
    bench.stream.alter(keep_replaced=AT_ONCE)
    assert not are_there(replaced(bench))


def test_altered_time_holds_for_those_that_wait(bench, clock):
    files = replaced(bench)
    clock.advance(60)
    bench.stream.alter(keep_replaced=timedelta(minutes=1))
    bench.stream.maintain()
    assert not are_there(files)


def test_file_of_the_future_goes_once_it_has_stayed_for_long_enough(bench, clock):
    files = replaced(bench)
    clock.wall_ns -= 10**9 * 86_400 * 365
    bench.stream.maintain()
    clock.advance(MINUTES_S - 1)
    bench.stream.maintain()
    assert are_there(files)
    clock.advance(1)
    bench.stream.maintain()
    assert not are_there(files)


def test_view_of_the_same_process_keeps_them_for_longer(bench, clock):
    bench.stream.trim()
    bench.stream.alter(read_bytes_max=2**20)
    result = bench.stream.scan()
    first = next(result)
    files = replaced(bench)
    clock.advance(MINUTES_S)
    bench.stream.maintain()
    assert are_there(files)
    assert first.num_rows + sum(batch.num_rows for batch in result) == 50
    bench.keep([51])
    assert not are_there(files)


def test_directory_is_not_listed_where_nothing_waits(bench, clock):
    files = replaced(bench)
    clock.advance(MINUTES_S)
    bench.stream.maintain()
    (remaining,) = paths(bench)
    shutil.copy(remaining, files[0])
    clock.advance(MINUTES_S)
    bench.stream.maintain()
    assert files[0].exists()
    bench.reopen()
    os.utime(files[0], (0, 0))
    bench.stream.maintain()
    assert not files[0].exists()


def test_expired_parts_go_at_once(bench):
    files = replaced(bench)
    (joined,) = paths(bench)
    bench.stream.alter(records_max=0)
    bench.stream.expire()
    if bench.stream.parts():
        pytest.fail("the part has not expired")
    assert not joined.exists()
    assert are_there(files)


def test_file_that_the_system_does_not_let_go_is_tried_again_with_the_next_turn(bench):
    bench.stream.maintain()
    files = paths(bench)
    for file in files:
        file.unlink()
        file.mkdir()
    bench.stream.alter(records_max=0)
    bench.stream.expire()
    assert bench.stream.parts() == []
    for file in files:
        file.rmdir()
        file.touch()
    bench.stream.maintain()
    assert not are_there(files)


@contextmanager
def full_disk():
    """Let no file grow beyond a thousand bytes."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_rebuild_that_fails_leaves_no_file_to_fill_the_disk(bench):
    files = paths(bench)
    files[-1].unlink()
    with full_disk(), pytest.raises(UnavailableError, match="parts cannot be built"):
        REBUILD(bench.stream)
    assert {*files[0].parent.iterdir()} == {*files[:-1]}
    assert REBUILD(bench.stream).parts_built


def test_obsolete_files_make_room_before_a_seal_that_fails(bench, clock):
    files = replaced(bench)
    clock.advance(MINUTES_S)
    bench.keep([50])
    with full_disk(), pytest.raises(UnavailableError, match="parts cannot be built"):
        bench.stream.seal()
    assert not are_there(files)


def test_answer_of_sql_streams_on_while_its_parts_are_joined(root):
    lab = PartsLab(root)
    for _ in range(6):
        lab.append_orders(20_000)
        lab.stream.seal()
    _, batches = query_batches(root, f"SELECT number FROM {NAME}")
    count = next(batches).num_rows
    assert lab.stream.compact().parts_obsolete
    assert count < 120_000
    assert count + sum(batch.num_rows for batch in batches) == 120_000
    lab.stream.close()


# --- readers in other processes, of files that go at once -----------------------------------


def sealed_bit_by_bit(root, keep_replaced=AT_ONCE, **options):
    """Return a lab whose rows are in many small parts alone."""
    lab = PartsLab(root, block_records=10, keep_replaced=keep_replaced, **options)
    rng = np.random.default_rng(9)
    for _ in range(6):
        lab.append(rng, 60)
        lab.stream.seal()
    lab.stream.trim()
    return lab


def join_more(lab):
    """Join parts of one more kind in each shard, of which the files go."""
    before = [part.path for part in lab.stream.parts()]
    assert lab.stream.maintain().rows_compacted
    assert not all(file.exists() for file in before)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """Return such a lab with a closed stream, made once of ids and once of keys."""

    @cache
    def made(key_mode):
        lab = sealed_bit_by_bit(tmp_path_factory.mktemp(key_mode), key_mode=key_mode)
        lab.stream.close()
        return lab

    return made


@pytest.fixture
def lab(sealed, key_mode, root):
    lab = sealed(key_mode).copied_to(root)
    yield lab
    lab.stream.close()


def joined_meanwhile(lab, batches):
    """Return the rows of batches; between the first of them parts are joined."""
    result = []
    for number, batch in enumerate(batches):
        result += batch.to_pylist()
        if number < 3:
            join_more(lab)
    return result


def by_place(rows):
    return sorted((row["shard"], row["address"], row["payload"]) for row in rows)


COLUMNS = ["shard", "address", "payload"]
READS = {
    "scan": lambda reader: reader.scan(columns=COLUMNS),
    "tail": lambda reader: reader.tail(0, columns=COLUMNS),
}


@pytest.mark.parametrize("call", READS)
def test_batches_in_another_process_show_each_row_once(lab, call):
    with closing(FarReader(lab.root, NAME)) as reader:
        expected = [row for batch in READS[call](reader) for row in batch.to_pylist()]
        result = joined_meanwhile(lab, READS[call](reader))
    assert len(result) > 100
    assert result == expected


def test_records_in_another_process_come_once_each(lab):
    expected: list[Record] = []
    result: list[Record] = []

    def take(record):
        if len(result) in (0, 100, 200):
            join_more(lab)
        result.append(record)

    with closing(FarReader(lab.root, NAME)) as reader:
        reader.for_each(None, None, None, expected.append)
        reader.for_each(None, None, None, take)
    assert len(result) > 300
    assert result == expected


def test_reads_in_another_process_show_each_row_once(lab):
    rows, looks = by_place(lab.rows()), []
    with closing(FarReader(lab.root, NAME)) as reader, ThreadPoolExecutor(1) as beside:
        joining = beside.submit(lambda: [join_more(lab) for _ in range(4)])
        is_over = False
        while not is_over:
            is_over = joining.done()
            looks.append(by_place(reader.read(columns=COLUMNS).to_pylist()))
        joining.result()
    assert all(found == rows for found in looks)


def test_read_whose_files_go_behind_its_look_looks_again(lab, hooked):
    rows = lab.rows()
    with StreamReader.open(lab.root, NAME) as reader:
        reader.refresh()
        look_through(reader, hooked)
        hooked.on("after snapshot", partial(join_more, lab))
        result = reader.read(columns=COLUMNS).to_pylist()
    assert hooked.calls
    assert by_place(result) == by_place(rows)


class TurningClock(ManualClock):
    """A clock that lets something happen once it is looked at."""

    then: Callable[[], None] | None = None

    @override
    def now_ns(self) -> int:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().now_ns()


@pytest.mark.parametrize("do", [Stream.seal, Stream.compact, REBUILD])
def test_writer_that_is_closed_meanwhile_removes_no_file_of_the_next(root, do):
    clock = TurningClock()
    lab = PartsLab(root, Environment(clock=clock, has_index_worker=False))
    rng = np.random.default_rng(41)
    for _ in range(5):
        lab.append(rng, 30)
        lab.stream.seal()
    lab.append(rng, 30)
    old, before = lab.stream, {part.path for part in lab.stream.parts()}
    if do is REBUILD:
        min(before).write_bytes(b"no part")

    def take_over() -> None:
        lab.reopen()
        lab.stream.seal()

    clock.then = take_over
    with pytest.raises(ClosedError):
        do(old)
    made = {part.path for part in lab.stream.parts()} - before
    assert made
    assert are_there(made)
    lab.stream.close()


def test_directory_under_the_name_of_the_next_part_is_told_by_its_place(bench):
    *_, last = paths(bench)
    directory = last.with_name("part-0000000005.rows")
    directory.mkdir()
    bench.keep([50])
    with pytest.raises(UnavailableError, match="Is a directory") as raised:
        bench.stream.seal()
    assert raised.value.path == directory
