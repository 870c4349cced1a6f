"""Goal: a disk that refuses a call of maintenance costs an error that names the place, and no row.

Method: steps of maintenance on a disk that ends the n-th call with an error, once or from then on:
any call with EIO, those that open a file with EMFILE, those that take room with ENOSPC. The kernel
caches nothing, so looks at names and reads count too. The step tells of it or is done. The stream
goes on in the same process, opened anew where a durable write failed, and the next run of the step
does what was left: each row is there once, by every read, each part is whole, there is no file of
a part that no entry names, and none is open any more. Beside that one turn of maintenance, whose
files another process makes, which lives on.

`make test` refuses a few calls; with SHARDLOG_FAULT_COLD each that has to do with files of parts
has its turn, and every seventh of all others.
"""

import errno
import gc
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from storage_core import (
    Environment,
    PartBuilder,
    ShardlogError,
    ShardPoisonedError,
    StreamReader,
    UnavailableError,
)
from tests.descriptors import open_files
from tests.faults.lossy.mount import LossyMount
from tests.faults.support.cold_maintenance import MAINTENANCE
from tests.faults.support.cold_rows import BLOCK_ROWS, ColdStream
from tests.log.parts.parts_lab import NAME
from tests.thin import covering, thinned

pytestmark = pytest.mark.fuse

CAMPAIGN: Final = "SHARDLOG_FAULT_COLD"
EACH: Final = bool(os.environ.get(CAMPAIGN))
CALLS_MAX: Final = 5000
TRIED_A_STREAM: Final = 10
OPENINGS_MAX: Final = 3
AT_ONCE: Final = {"keep_replaced": timedelta(0)}
# What every turn of maintenance seals, joins and trims.
DUE: Final = {**AT_ONCE, "seal_rows": 1, "keep_hot": timedelta(microseconds=1)}
Work = Callable[[ColdStream], object]


class Refusal(NamedTuple):
    """Which calls are refused, and with what."""

    error: int
    under: str
    passes: int
    times: int | None


NEIGHBOURS_MAX: Final = (
    Refusal(errno.EIO, "/parts", 17, None),
    Refusal(errno.EMFILE, "/parts", 5, 1),
    Refusal(errno.ENOSPC, "", 2, None),
)
# What is refused, where, each how many calls behind the last, and how often.
SWEEPS: Final = {
    f"{errno.errorcode[error]} {'of parts' if under else 'of all'} {times or 'from then on'}": [
        Refusal(error, under, passes, times) for passes in range(0, CALLS_MAX, step)
    ]
    for error in (errno.EIO, errno.EMFILE, errno.ENOSPC)
    for under, step in (("/parts", 1), ("", 7))
    for times in (1, None)
}
FEW_EACH: Final = {errno.errorcode[one.error]: [one] for one in NEIGHBOURS_MAX}
WHICH: Final = SWEEPS if EACH else FEW_EACH


@pytest.fixture(scope="module")
def _mounted() -> Iterator[LossyMount]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LossyMount(Path(folder) / "disk", is_cached=False) as mount,
    ):
        yield mount


@pytest.fixture
def refusing(_mounted: LossyMount) -> LossyMount:
    """An empty disk of which the kernel caches nothing."""
    _mounted.format()
    return _mounted


def refused(disk: LossyMount, rows: ColdStream, work: Work, refusal: Refusal) -> bool:
    """Take a step on a disk that refuses calls; say whether it did."""
    error, under, passes, times = refusal
    disk.order(refusal=error, refuses_under=under, calls_until_refusal=passes, refusals_left=times)
    message = error_of(work, rows)
    state = disk.order(refusal=0)
    disk.order(refused=0)
    if message is not None:
        assert isinstance(message, UnavailableError | ShardPoisonedError)
        assert message.path is not None or message.shard is not None
    return bool(state["refused"])


def error_of(work: Work, rows: ColdStream) -> ShardlogError | None:
    """Take a step; return what it tells of."""
    try:
        work(rows)
    except ShardlogError as error:
        return error
    return None


def go_on(rows: ColdStream, work: Work) -> None:
    """Append, and take the step again; what runs beside it may have met the refusal too."""
    for _ in range(OPENINGS_MAX):
        try:
            rows.append(3)
            work(rows)
            rows.stream.maintain()
        except ShardPoisonedError:
            rows.reopen()
        else:
            return
    pytest.fail("a disk that refuses nothing poisons")


def expect_nothing_left(rows: ColdStream) -> None:
    """Find all files of parts named, and none open."""
    parts = {part.path for part in rows.stream.parts()}
    assert set(rows.root.glob("*/*/sealed/*")) == parts
    seen = {(path.parents[1], path.stem) for path in rows.root.glob("*/*/parts/*")}
    assert seen == {(path.parents[1], path.stem) for path in parts}
    # What an error's trace has held.
    gc.collect()
    assert not [path for path in open_files(rows.root) if "/parts" in path or "/sealed" in path]
    assert not [*rows.root.glob("*/*.draft"), *rows.root.glob("*/*/*.draft")]


def tried(disk: LossyMount, rows: ColdStream, work: Work, refusal: Refusal) -> bool:
    """Let a step meet a refusal, and find all as it should be; say whether it met it."""
    try:
        was_refused = refused(disk, rows, work, refusal)
        go_on(rows, work)
        rows.expect_of(rows.stream)
        assert rows.stream.verify().is_clean
        expect_nothing_left(rows)
    except BaseException as error:
        error.add_note(f"{refusal}: {disk.order(refusal=0)['refused_call']}")
        raise
    return was_refused


def try_all(
    disk: LossyMount, refused: str, options: Mapping[str, Any], prepare: Work, work: Work
) -> None:
    """Let a step meet one refusal after the other, in a new stream now and then."""
    chosen = WHICH[refused]
    for first in range(0, len(chosen), TRIED_A_STREAM):
        disk.format()
        environment = Environment(has_index_worker=False)
        rows = ColdStream(disk.path / "root", 5, environment, **options)
        was_refused = True
        with rows.opened():
            for refusal in chosen[first : first + TRIED_A_STREAM]:
                prepare(rows)
                was_refused = tried(disk, rows, work, refusal)
        rows.expect()
        if not was_refused and EACH:
            # There are no more calls.
            return


@covering(CAMPAIGN, step_name=[*MAINTENANCE], refused=[*WHICH])
def test_disk_that_refuses_a_call_of_maintenance_is_told_and_costs_no_row(
    refusing: LossyMount, step_name: str, refused: str
) -> None:
    step = MAINTENANCE[step_name]
    try_all(refusing, refused, {**step.options, **AT_ONCE}, step.prepare, step.work)


def prepared(rows: ColdStream) -> None:
    rows.append(12)


@thinned("refused", WHICH, 1, CAMPAIGN)
def test_disk_that_refuses_a_call_of_a_turn_is_told_and_the_maker_lives_on(
    refusing: LossyMount, refused: str
) -> None:
    with PartBuilder() as builder:
        try_all(refusing, refused, DUE, prepared, lambda rows: rows.stream.maintain(builder))
        assert builder.deaths == 0
        assert builder.process_id is not None
        assert open_files(refusing.path, builder.process_id) == []


def test_rows_that_the_disk_cannot_read_while_parts_are_mended_are_not_lost(
    refusing: LossyMount,
) -> None:
    rows = ColdStream(refusing.path / "root", 7)
    with rows.opened() as stream:
        MAINTENANCE["trim"].prepare(rows)
        stream.trim()
        parts = stream.parts()
        refusing.order(refusal=errno.EIO, refuses_under=parts[0].path.name)
        with pytest.raises(UnavailableError, match="cannot be read now") as error:
            stream.seal(rebuild=True)
        assert error.value.path == parts[0].path
        refusing.order(refusal=0)
        assert stream.lost_ranges() == {0: [], 1: []}
        assert not stream.seal(rebuild=True).shards[0].of("rebuild")
        assert stream.parts() == parts
    rows.expect()


def test_rows_of_parts_that_the_disk_reads_are_shown_beside_one_that_it_does_not(
    refusing: LossyMount,
) -> None:
    rows = ColdStream(refusing.path / "root", 6)
    with rows.opened() as stream:
        rows.append(120)
        stream.seal()
        stream.trim()
        late = max(
            (one for one in stream.parts() if one.shard == 0), key=lambda one: one.entry.first
        )
        # No block before that has rows in it, though their rows are read together.
        before = late.entry.first // BLOCK_ROWS * BLOCK_ROWS
        assert before
        refusing.order(refusal=errno.EIO, refuses_under=late.path.name)
        with StreamReader.open(rows.root, NAME) as reader:
            for reads in (stream, reader):
                with pytest.raises(UnavailableError, match="cannot be read now") as error:
                    list(reads.tail(0))
                assert (error.value.shard, error.value.path) == (0, late.path)
                counts = [some.num_rows for some in reads.tail(0, 0, before)]
                assert sum(counts) == before
        refusing.order(refusal=0)
    rows.expect()
