"""Verify against values that were changed under whole checksums: each falsehood is told.

The store says something else than its blocks do; nothing but a comparison can find it. Every
finding names its kind and key, and its addresses where it is about some.
"""

import copy
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from storage_core import Problem, ShardPoisonedError, TransactionId
from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.engine.key_value import Batch
from storage_core.format.counters import Counters
from storage_core.format.head import decode_head_values
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    PREFIX_AHEAD,
    PREFIX_LATE,
    ahead_key,
    dead_letter_key,
    done_key,
    head_key,
    late_key,
    place_key,
    prefix_end,
    window_key,
)
from storage_core.format.record import rows_from_arrow
from storage_core.format.shard_state import (
    KEY_NEXT,
    KEY_SOURCE,
    KEY_TRANSACTIONS,
    AddressRange,
    Ledger,
    Places,
    ShardState,
    Tail,
    TransactionProgress,
    decode_tail,
    encode_ledger,
    encode_progress,
    encode_source,
    encode_tail,
    pass_key,
)
from storage_core.format.window import Window, decode_window, encode_window
from storage_core.verify.findings import PROBLEMS_MAX, Findings, Kind
from storage_core.verify.state_checks import check_tail
from storage_core.verify.verify import (
    NEVER_CHECKED,
    UNCHECKED_CHAIN,
    UNCHECKED_COUNTS,
    UNCHECKED_SUMS,
    VerifyLimits,
    VerifyReport,
    verify_shard,
)
from storage_core.write.cutting import put_block
from tests.log.workbench import Workbench, batch_of, each_a_write, publish, transact
from tests.unit.storage_core.strategies import head_value, int32_array

AHEAD = 10**12
COUNTED = [
    "records",
    "late_arrivals",
    "jitter_absorbed",
    "ahead",
    "blocks",
    "payload_bytes",
    "strays",
    "dead_letters",
    "skipped",
]


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory):
    """Forty blocks of ids 1 and 2: a late row at 30, one ahead at 39, a tombstone."""
    root = tmp_path_factory.mktemp("filled")
    bench = Workbench(root, "stream", unit="s", jitter=5, ahead_max=10**10, block_records=1)
    primaries = [100 + 10 * number for number in range(40)]
    primaries[30:32] = [50, 387]
    primaries[39] = AHEAD
    columns: dict[str, list[Any]] = {
        "secondary": [2 if number in (4, 5) else 1 for number in range(40)],
        "payload": [None if number == 3 else b"payload" for number in range(40)],
        "key": [b"key" if number == 30 else None for number in range(40)],
        "headers": [
            [{"key": "h", "value": b"1"}] if number == 30 else None for number in range(40)
        ],
        "timestamp": list(range(40)),
    }
    # The second batch finds enough blocks before it to write the heads of the first.
    for part in (slice(37), slice(37, 40)):
        bench.keep(primaries[part], **{name: column[part] for name, column in columns.items()})
    assert bench.shard.tail.counters.jitter_absorbed == 1
    bench.close()
    return bench


@pytest.fixture
def filled(filled_once, root):
    """A copy of one's own."""
    bench = copy.copy(filled_once)
    bench.root = root
    shutil.copytree(filled_once.root, root, dirs_exist_ok=True)
    yield bench
    bench.release()


def value_of(bench: Workbench, key: bytes) -> bytes:
    store = bench.store()
    (value,) = store.get_many([key])
    store.close()
    assert value is not None
    return value


def put(bench: Workbench, key: bytes, value: bytes) -> None:
    bench.change((FAMILY_DEFAULT, key, value))


def findings(bench: Workbench) -> list[Problem]:
    bench.open()
    return problems_of(bench)


def problems_of(bench: Workbench, **limits: Any) -> list[Problem]:
    return list(verify_shard(bench.shard, limits=VerifyLimits(**limits)).problems)


def expect(bench: Workbench, kind: Kind, key: bytes, start: int | None = None) -> None:
    """Expect one problem, of a kind, about a key and an address, in one pass and in many."""
    bench.open()
    for limits in ({}, {"heads": 1, "windows": 1}):
        (problem,) = problems_of(bench, **limits)
        assert (problem.kind, problem.key, problem.start) == (kind, key, start)
        assert (problem.shard, problem.file) == (0, str(bench.database))
    bench.close()


def late_item(bench: Workbench, address: int) -> tuple[bytes, bytes]:
    store = bench.store()
    items = list(store.snapshot().items(FAMILY_DEFAULT, PREFIX_LATE, prefix_end(PREFIX_LATE)))
    store.close()
    (entry,) = [item for item in items if item[0].endswith(address.to_bytes(8, "big"))]
    return entry


@pytest.mark.parametrize("limits", [{}, {"heads": 1}, {"windows": 1}, {"heads": 1, "windows": 1}])
def test_clean_store_is_clean_in_however_many_passes(filled, limits):
    filled.open()
    report = verify_shard(filled.shard, limits=VerifyLimits(**limits))
    assert report == VerifyReport(40, 40, 2, (), 0, NEVER_CHECKED)


def test_many_ids_and_windows_are_compared_in_many_passes(make_bench):
    bench = make_bench(unit="sequence", block_records=3)
    numbers = [(37 * number) % 50 for number in range(100)]
    bench.keep([number * 2**20 for number in numbers], secondary=numbers)
    assert verify_shard(bench.shard, limits=VerifyLimits(4, 4)).is_clean
    bench.close()
    window = decode_window(value_of(bench, window_key(17)))
    put(bench, window_key(17), encode_window(window._replace(records=9)))
    expect(bench, "window", window_key(17), window.address_min)


# --- heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [(-10, 0, 0), (10, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1)])
def test_head_that_differs_in_anything_is_told(filled, change):
    (head,) = decode_head_values([value_of(filled, head_key(2))]).tolist()
    assert head == [150, 5, 5]
    put(filled, head_key(2), head_value(*(a + b for a, b in zip(head, change, strict=True))))
    expect(filled, "head", head_key(2), 5)


def test_missing_head_is_told(filled):
    filled.change(deletes=[head_key(2)])
    expect(filled, "head", head_key(2), 5)


def test_head_without_rows_is_told(filled):
    put(filled, head_key(9), head_value(150, 5, 5))
    expect(filled, "head", head_key(9))


# --- copies of late and ahead rows ------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.replace(b"payload", b"PAYLOAD"),
        lambda value: value.replace(b"key", b"KEY"),
        lambda value: bytes([2]) + value[1:],
        lambda value: value[:1] + bytes([1]) + value[2:],
        lambda value: value[:4] + b"\x01" + value[5:],
        lambda value: value[:26] + bytes([value[26] ^ 1]) + value[27:],
        lambda value: value[:-1],
        lambda value: value + b"\0",
        lambda _: b"short",
        lambda _: b"",
        lambda value: value[:34] + b"\xff" * len(value[34:]),
    ],
    ids=["payload", "key", "state", "null", "version", "time", "cut", "long", "short", "no", "ff"],
)
def test_copy_that_differs_in_anything_is_told(filled, change: Callable[[bytes], bytes]):
    key, value = late_item(filled, 30)
    assert change(value) != value
    put(filled, key, change(value))
    expect(filled, "late copy", key, 30)


@pytest.mark.parametrize("address", [30, 39])
def test_missing_copy_is_told(filled, address):
    key, _ = late_item(filled, address)
    filled.change(deletes=[key])
    expect(filled, "late copy", key, address)


def test_missing_key_of_an_ahead_row_is_told(filled):
    key = ahead_key(1, AHEAD, 39)
    filled.change(deletes=[key])
    expect(filled, "ahead key", key, 39)


def test_key_without_an_ahead_row_is_told(filled):
    put(filled, ahead_key(1, AHEAD, 38), b"")
    expect(filled, "ahead key", PREFIX_AHEAD)


@pytest.mark.parametrize(
    "key",
    [
        late_key(0, 1, 50, 29),
        late_key(7, 1, 50, 30),
        late_key(0, 2, 50, 30),
        late_key(0, 1, 50, 30)[:-1],
        late_key(0, 1, 50, 10**6),
    ],
)
def test_copy_without_a_row_is_told(filled, key):
    put(filled, key, late_item(filled, 30)[1])
    address = int.from_bytes(key[-8:], "big") if len(key) == 29 else None
    expect(filled, "late copy", key, address)


# --- windows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"address_min": 1},
        {"address_last": 37},
        {"address_last": 50},
        {"records": 38},
        {"late_records": 0},
        {"late_records": 2},
        {"payload_bytes": 0},
        {"payload_bytes": 10**6},
    ],
)
def test_window_that_differs_in_anything_is_told(filled, changes):
    window = decode_window(value_of(filled, window_key(0)))
    assert (window.address_min, window.address_last, window.records) == (0, 38, 39)
    put(filled, window_key(0), encode_window(window._replace(**changes)))
    expect(filled, "window", window_key(0), 0)


def test_missing_window_is_told(filled):
    filled.change(deletes=[window_key(0)])
    expect(filled, "window", window_key(0), 0)


def test_window_without_rows_is_told(filled):
    put(filled, window_key(9), encode_window(Window(0, 5, 5)))
    expect(filled, "window", window_key(9))


# --- counters, tail, source, dead letters -----------------------------------------------------


@pytest.mark.parametrize("name", COUNTED)
def test_counter_that_is_too_large_is_told(filled, name):
    tail = decode_tail(value_of(filled, KEY_NEXT))
    counters = tail.counters._replace(**{name: getattr(tail.counters, name) + 1})
    put(filled, KEY_NEXT, encode_tail(replace(tail, counters=counters)))
    expect(filled, "counter", KEY_NEXT)


@pytest.mark.parametrize(
    "name", ["records", "late_arrivals", "jitter_absorbed", "ahead", "blocks", "payload_bytes"]
)
def test_counter_that_is_too_small_is_told(filled, name):
    tail = decode_tail(value_of(filled, KEY_NEXT))
    counters = tail.counters._replace(**{name: getattr(tail.counters, name) - 1})
    put(filled, KEY_NEXT, encode_tail(replace(tail, counters=counters)))
    expect(filled, "counter", KEY_NEXT)


def test_source_above_the_tail_is_told(filled):
    put(filled, KEY_SOURCE, encode_source({"next": 41}))
    expect(filled, "tail", KEY_SOURCE)


@pytest.mark.parametrize(
    "state",
    [
        ShardState(Tail(5, 6, Counters()), b"l"),
        ShardState(Tail(5, 5, Counters()), b"l", heads_through=6),
        ShardState(Tail(5, 5, Counters()), b"l", start=6),
        ShardState(Tail(5, 5, Counters()), b"l", passed=(AddressRange(2, 6),)),
    ],
)
def test_tail_below_what_lies_under_it_is_told(state):
    findings = Findings(0, "db")
    check_tail(state, b"l", 0, findings)
    assert [(one.kind, one.start, one.end) for one in findings.problems] == [("tail", 5, 6)]


def test_range_passed_over_that_was_never_counted_is_told(filled):
    put(filled, pass_key(45), (46).to_bytes(8, "little"))
    assert {problem.kind for problem in findings(filled)} == {"counter", "tail"}


@pytest.fixture
def copied(make_bench):
    """Rows at 0, 5 and 10 with dead letters at 3 and 12."""
    bench = make_bench()
    bench.stream.append_batch(
        batch_of([1, 2, 3]), addresses=[0, 5, 10], dead_letters={3: b"raw", 12: b"raw"}
    )
    bench.close()
    return bench


def test_dead_letters_are_clean_as_they_are(copied):
    assert findings(copied) == []


@pytest.mark.parametrize("address", [5, 10, 99])
def test_dead_letter_where_none_can_be_is_told(copied, address):
    put(copied, dead_letter_key(address), b"raw")
    problems = findings(copied)
    assert {problem.kind for problem in problems} >= {"dead letter", "counter"}
    assert dead_letter_key(address) in {problem.key for problem in problems}


def test_missing_dead_letter_is_told(copied):
    copied.change(deletes=[dead_letter_key(3)])
    expect(copied, "counter", KEY_NEXT)


# --- transactions and keys --------------------------------------------------------------------


@pytest.fixture
def remembering(bench):
    """Three named transactions and a numbered one."""
    transact(bench, "1", "2", "3")
    publish(bench, TransactionId("app", 7), [1], [1])
    bench.stream.finish_transactions()
    assert bench.stream.verify().is_clean
    bench.close()
    return bench


def test_transaction_without_an_entry_is_told(remembering):
    remembering.change(deletes=[done_key("2")])
    assert {problem.kind for problem in findings(remembering)} == {"transaction"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (done_key("imitated"), encode_progress(TransactionProgress(1, 1, 1, 0))),
        (done_key("2"), encode_progress(TransactionProgress(1, 2, 2, 0))),
        (done_key("2"), b"short"),
        (place_key(0, 9), b"2"),
        (KEY_TRANSACTIONS, encode_ledger(Ledger(None, Places(0, 2), Places(0, 1)))),
        (KEY_TRANSACTIONS, encode_ledger(Ledger(None, Places(1, 4), Places(0, 1)))),
    ],
)
def test_ids_that_do_not_agree_are_told(remembering, key, value):
    put(remembering, key, value)
    assert {problem.kind for problem in findings(remembering)} == {"transaction"}


@pytest.mark.parametrize("key", [b"", b"Z", b"b", b"x stray", b"{", b"\xff"])
def test_key_that_is_none_of_the_logs_is_told(filled, key):
    put(filled, key, b"?")
    expect(filled, "key", key)


# --- states -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("primary", "address", "state"), [(50, 20, 0), (300, 20, 1), (500, 30, 1), (AHEAD, 39, 1)]
)
def test_state_that_does_not_follow_from_the_heads_is_told(filled, primary, address, state):
    batch = Batch()
    rows = rows_from_arrow(batch_of([primary]), PAYLOAD_BYTES_MAX)
    states = int32_array([state]).astype("u1") if state else None
    shard = filled.open()._shards[0]
    put_block(
        batch,
        rows,
        states,
        int32_array([address]).astype("i8"),
        shard.context.place,
        previous_end=address,
        now_ms=5,
        options=shard.options,
    )
    filled.close()
    filled.change(*batch.puts)
    (problem,) = [one for one in findings(filled) if one.kind == "block"]
    assert problem.start == address
    assert "have another state" in problem.message


# --- the report -------------------------------------------------------------------------------


def test_problems_are_listed_up_to_a_bound_and_counted_behind_it(bench):
    bench.append([10**6, *range(PROBLEMS_MAX + 5)])
    bench.close()
    store, batch = bench.store(), Batch()
    for key, _ in store.snapshot().items(FAMILY_DEFAULT, PREFIX_LATE, prefix_end(PREFIX_LATE)):
        batch.delete(key)
    store.write(batch)
    store.close()
    report = bench.open().verify()
    assert (len(report.problems), report.left_out) == (PROBLEMS_MAX, 5)
    assert report.plus(report).left_out == 10


def test_progress_goes_up_to_the_end(make_bench):
    bench = make_bench(block_records=1)
    for number in range(130):
        bench.append([number])
    seen: list[tuple[int, int, int]] = []
    bench.stream.verify(lambda *where: seen.append(where))
    assert seen == [(0, 0, 130), (0, 64, 130), (0, 128, 130)]


def test_report_says_what_is_never_looked_at(bench):
    assert bench.stream.verify().unchecked == NEVER_CHECKED


def test_report_says_that_sums_are_bounds_where_rows_are_gone(filled):
    filled.damage_block(20)
    report = filled.open().verify()
    assert {problem.kind for problem in report.problems} == {"block"}
    assert report.unchecked == (*NEVER_CHECKED, UNCHECKED_SUMS)
    filled.stream.accept_loss(0, 20, 21)
    report = filled.stream.verify()
    assert (report.is_clean, report.unchecked) == (True, (*NEVER_CHECKED, UNCHECKED_SUMS))


def test_head_that_is_behind_is_told_though_rows_are_gone(filled):
    filled.damage_block(20)
    put(filled, head_key(2), head_value(140, 4, 4))
    assert {problem.kind for problem in findings(filled)} == {"block", "head"}


def test_report_says_where_a_chain_is_broken(filled):
    filled.change(deletes=[b"z" + (20).to_bytes(8, "big")])
    report = filled.open().verify()
    assert [problem.kind for problem in report.problems] == ["zone"]
    assert report.unchecked == (*NEVER_CHECKED, UNCHECKED_CHAIN)


def test_report_says_that_counts_are_bounds_where_a_transaction_was_given_up(make_bench, disk):
    bench = make_bench(disk=disk, block_records=1)
    disk.failing = {"third write"}
    with suppress(ShardPoisonedError), bench.stream.transaction("1", 3) as rows:
        for batch in each_a_write(batch_of([number]) for number in range(3)):
            rows.append_batch(batch)
    disk.failing = set()
    bench.crash()
    for path in bench.staging.rglob("*.arrow"):
        path.unlink()
    bench.open(give_up_transactions=["1"])
    report = bench.stream.verify()
    assert (report.is_clean, report.unchecked) == (True, (*NEVER_CHECKED, UNCHECKED_COUNTS))
