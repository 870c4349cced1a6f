"""Facts about RocksDB that the design leans on, each provoked by the real thing.

Iterators end in silence at a bad block, recovery cuts the log in silence, families can part, a
secondary's `get` goes stale, pickles lie in wait. Ours tell, refuse, or never ask.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
)
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import RocksDbStore, open_secondary, open_store
from tests.log.on_disk import flip_bit
from tests.unit.storage_core.engine.stores import (
    FAMILIES,
    cut,
    filled,
    key_of,
    left_by_a_crash,
    numbers_in,
    put,
)

# --- silences that are broken -----------------------------------------------------------------


@pytest.mark.parametrize("byte", [50, 1500, 3000])
def test_iteration_over_a_bad_block_raises_where_rocksdb_ends_in_silence(path, byte):
    filled(path, 500, ("default",))
    flip_bit(min(path.glob("*.sst")), byte)
    store = open_store(path, "strict")
    silent = store._database.iter()
    silent.seek_to_first()
    seen = 0
    while silent.valid():
        seen += 1
        silent.next()
    assert seen < 500
    with pytest.raises(CorruptionError, match="reading: Corruption: block checksum mismatch"):
        numbers_in(store)
    store.close()


@pytest.mark.parametrize("backwards", [True, False])
def test_seek_into_a_bad_block_raises(path, backwards):
    filled(path, 500, ("default",))
    flip_bit(min(path.glob("*.sst")), 50)
    store = open_store(path, "strict")
    view = store.snapshot()
    seek = view.at_or_before if backwards else view.at_or_after
    with pytest.raises(CorruptionError):
        seek("default", key_of(5))
    store.close()


def test_strict_recovery_refuses_the_log_that_point_in_time_cuts_in_silence(store, root):
    put(store, *range(100))
    copy = left_by_a_crash(store, root / "copy")
    log = min(copy.glob("*.log"))
    flip_bit(log, log.stat().st_size // 2)
    with pytest.raises(CorruptionError, match="strict recovery"):
        open_store(copy, "strict")
    short = open_store(copy, "point_in_time")
    assert 0 < len(numbers_in(short)) < 100
    assert numbers_in(short) == list(range(len(numbers_in(short))))
    short.close()


def test_strict_recovery_refuses_a_torn_end_too(store, root):
    put(store, 1, 2)
    copy = left_by_a_crash(store, root / "copy")
    cut(min(copy.glob("*.log")))
    with pytest.raises(CorruptionError):
        open_store(copy, "strict")
    short = open_store(copy, "point_in_time")
    assert numbers_in(short) == [1]
    short.close()


def test_families_stay_at_one_point_whatever_the_log_loses(root):
    store = open_store(root / "db", "strict", write_buffer_bytes=64 * 1024)
    put(store, *range(600), size=400)
    store._database.cancel_all_background(True)
    copy = left_by_a_crash(store, root / "copy")
    assert len(list(copy.glob("*.sst"))) >= 2
    for log in copy.glob("*.log"):
        flip_bit(log, log.stat().st_size // 2)
    short = open_store(copy, "point_in_time")
    assert numbers_in(short) == numbers_in(short, "log") == list(range(len(numbers_in(short))))
    short.close()


def trap_for(file: Path) -> bytes:
    """Return a pickle that makes a file when it is read."""
    return b"cbuiltins\nopen\n(V" + str(file).encode() + b"\nVw\ntR."


def test_trap_works(root):
    pickle.loads(trap_for(root / "touched")).close()  # noqa: S301 - shows what is avoided below
    assert (root / "touched").exists()


@pytest.mark.parametrize("config", ['{"raw_mode":false,"prefix_extractors":{}}', "{}", None])
def test_no_pickle_is_ever_executed_whatever_the_folder_says(path, config):
    trap = trap_for(path.with_name("touched"))
    store = open_store(path, "strict")
    batch = Batch()
    for family in FAMILIES:
        batch.put(b"k", trap, family)
    store.write(batch)
    store.close()
    if config is not None:
        (path / "rocksdict-config.json").write_text(config)
    store = open_store(path, "strict")
    assert store.get_many([b"k"]) == [trap]
    assert [item for family in FAMILIES for item in store.snapshot().items(family, b"", None)] == [
        (b"k", trap)
    ] * 2
    store.close()
    assert not path.with_name("touched").exists()


@pytest.mark.parametrize("leave", ["view", "iteration"])
def test_close_frees_the_lock_though_views_are_alive(path, leave):
    store = open_store(path, "strict")
    put(store, 1, 2)
    view = store.snapshot()
    items = view.items("log", b"", None)
    if leave == "iteration":
        next(items)
    store.close()
    open_store(path, "strict").close()
    with pytest.raises(ClosedError, match="closed while it was being read"):
        list(items)


# --- secondaries ------------------------------------------------------------------------------


@pytest.fixture
def beside(store, root) -> Iterator[RocksDbStore]:
    """A store as a reader in another process opens it, which has seen the number 1."""
    put(store, 1)
    store.sync()
    secondary = open_secondary(store.path, root / "private")
    yield secondary
    secondary.close()


def rewritten(store: RocksDbStore, value: bytes) -> None:
    batch = Batch()
    batch.put(b"m", value)
    store.write(batch)
    store.sync()


@pytest.mark.parametrize("quiet", ["flush", "close", "idle"])
def test_secondary_sees_a_rewritten_key_by_iterator(store, beside, quiet):
    for value in (b"old", b"new"):
        rewritten(store, value)
        if quiet != "idle" and value == b"new":
            (store._database.flush if quiet == "flush" else store.close)()
        beside.catch_up()
        beside.catch_up()
        assert beside.snapshot().at_or_after("default", b"m") == (b"m", value)


def test_get_of_a_secondary_goes_stale_so_ours_is_not_there(store, beside):
    rewritten(store, b"old")
    beside.catch_up()
    rewritten(store, b"new")
    store._database.flush()
    for _ in range(2):
        beside.catch_up()
    assert beside._database.get(b"m") == b"old"
    with pytest.raises(AssertionError, match="goes stale"):
        beside.get_many([b"m"])


def test_secondary_sees_what_was_never_synced(store, beside):
    put(store, 2)
    beside.catch_up()
    assert numbers_in(beside) == [1, 2]


def test_view_of_a_secondary_opens_all_it_needs_at_once(store, beside):
    view = beside.snapshot()
    put(store, 2)
    beside.catch_up()
    assert [len(list(view.items(family, b"", None))) for family in FAMILIES] == [1, 1]


def test_secondary_stands_beside_a_writer_that_goes_and_comes(store, beside):
    store.close()
    again = open_store(store.path, "strict")
    put(again, 2)
    beside.catch_up()
    assert numbers_in(beside) == [1, 2]
    again.close()
