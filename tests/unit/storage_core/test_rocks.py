"""The seam to RocksDB: its errors get a kind, its silences are broken, its options are in force.

Each fact about RocksDB that the design leans on has a test here, provoked by the real thing.
"""

import pickle
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
    rocks,
)
from storage_core.rocks import Batch, RocksStore, open_secondary, open_store
from tests.unit.storage_core.workbench import flip_bit

FAMILIES = ("default", "log")


@pytest.fixture
def path(root):
    return root / "db"


@pytest.fixture
def store(path) -> Iterator[RocksStore]:
    store = open_store(path, "strict")
    yield store
    store.close()


def put(
    store: RocksStore, *numbers: int, size: int = 100, families: tuple[str, ...] = FAMILIES
) -> None:
    """Write a value under each number, the same in each family, each in a batch of its own."""
    for number in numbers:
        batch = Batch()
        for family in families:
            batch.put(key_of(number), number.to_bytes(size, "big"), family)
        store.write(batch)


def key_of(number: int) -> bytes:
    return b"z" + number.to_bytes(4, "big")


def numbers_in(store: RocksStore, family: str = "default", start: int = 0) -> list[int]:
    """Return the numbers under which there are values."""
    view = store.view()
    try:
        keys = [key for key, _ in view.items(family, key_of(start), None)]
    finally:
        view.close()
    return [int.from_bytes(key[1:], "big") for key in keys]


def filled(path: Path, count: int = 200, families: tuple[str, ...] = FAMILIES) -> None:
    """Make a closed store of so many values; closing moves them to files."""
    store = open_store(path, "strict")
    put(store, *range(count), families=families)
    store.close()


def left_by_a_crash(store: RocksStore, copy: Path) -> Path:
    """Return a copy of a store's files as the kernel has them at this moment."""
    store.sync()
    shutil.copytree(store.path, copy)
    return copy


# --- what it does -----------------------------------------------------------------------------


def test_items_come_in_order_from_start_to_before_end(store):
    put(store, 5, 1, 9, 3)
    view = store.view()
    for family in FAMILIES:
        items = view.items(family, key_of(2), key_of(9))
        assert [key for key, _ in items] == [key_of(3), key_of(5)]
    assert list(view.items("default", key_of(10), None)) == []


def test_nearest_items_are_found_on_both_sides(store):
    put(store, 3, 5)
    view = store.view()
    sides = [
        [view.at_or_before("log", key_of(n)), view.at_or_after("log", key_of(n))]
        for n in (2, 3, 4, 6)
    ]
    found = [[None if item is None else item[0][-1] for item in pair] for pair in sides]
    assert found == [[None, 3], [3, 3], [3, 5], [5, None]]


def test_delete_comes_before_put_in_one_batch(store):
    put(store, 1)
    batch = Batch()
    batch.put(key_of(1), b"new")
    batch.delete(key_of(1))
    batch.delete(key_of(1), "log")
    store.write(batch)
    assert store.get_many([key_of(1), key_of(2)]) == [b"new", None]
    assert numbers_in(store, "log") == []


def test_view_stays_what_it_was(store):
    put(store, 1)
    view = store.view()
    put(store, 2)
    assert [len(list(view.items(family, b"", None))) for family in FAMILIES] == [1, 1]
    assert numbers_in(store) == [1, 2]


def test_several_iterators_of_a_view_do_not_disturb_each_other(store):
    put(store, 1, 2, 3)
    view = store.view()
    pairs = [
        (outer[-1], inner[-1])
        for outer, _ in view.items("log", b"", None)
        for inner, _ in view.items("log", outer, None)
    ]
    assert pairs == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]


def test_iteration_that_was_left_early_can_be_followed_by_another(store):
    put(store, 1, 2, 3)
    view = store.view()
    for _ in range(3):
        assert next(view.items("default", b"", None))[0] == key_of(1)


def test_values_are_there_after_a_reopen_in_both_families(path):
    filled(path, 5)
    store = open_store(path, "strict")
    assert numbers_in(store) == numbers_in(store, "log") == list(range(5))
    store.close()


# --- the table of errors, each row by the real error ------------------------------------------


def test_second_open_in_this_process_is_locked(store):
    with pytest.raises(ShardLockedError, match="lock hold by current process"):
        open_store(store.path, "strict")


def test_second_open_in_another_process_is_locked(store):
    program = (
        "import sys; from pathlib import Path; from storage_core import rocks\n"
        "try: rocks.open_store(Path(sys.argv[1]), 'strict')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, store.path], capture_output=True, text=True, check=True
    ).stdout
    assert told.startswith("ShardLockedError opening (strict recovery): IO error: While lock file")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("file", "damage", "text"),
    [
        ("*.sst", lambda path: flip_bit(path, -60), "Corruption: block checksum mismatch"),
        ("*.sst", lambda path: flip_bit(path, -1), "Corruption: Bad table magic number"),
        ("*.sst", cut, "Corruption: Sst file size mismatch"),
        ("*.sst", Path.unlink, "Corruption: .*No such file"),
        ("MANIFEST-*", lambda path: flip_bit(path, 50), "Corruption: checksum mismatch"),
        ("MANIFEST-*", Path.unlink, "IO error: No such file"),
        ("CURRENT", lambda path: path.write_bytes(b""), "Corruption: CURRENT file"),
    ],
)
def test_damaged_file_is_corruption(path, file, damage, text):
    filled(path)
    damage(min(path.glob(file)))
    with pytest.raises(CorruptionError, match=rf"opening \(strict recovery\): {text}"):
        open_store(path, "strict")


def test_families_at_different_points_are_corruption(store, root):
    put(store, *range(10))
    store._database.flush()
    put(store, *range(10, 20))
    copy = left_by_a_crash(store, root / "copy")
    log = min(copy.glob("*.log"))
    flip_bit(log, log.stat().st_size // 2)
    with pytest.raises(CorruptionError, match="SST file is ahead of WALs"):
        open_store(copy, "point_in_time")


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let the kernel refuse to make files larger, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_disk_that_takes_no_more_is_unavailable_and_stays_so(path):
    store = open_store(path, "strict")
    with (
        files_end_at(100_000),
        pytest.raises(UnavailableError, match=r"writing: IO error: .*large"),
    ):
        put(store, 1, size=200_000)
    for call in (lambda: put(store, 2), store.sync, store.close):
        with pytest.raises(UnavailableError):
            call()


def test_store_comes_back_from_a_disk_that_took_no_more(path):
    store = open_store(path, "strict")
    put(store, 1)
    store.sync()
    with files_end_at(100_000), pytest.raises(UnavailableError):
        put(store, 2, size=200_000)
    with pytest.raises(UnavailableError):
        store.close()
    store = open_store(path, "point_in_time")
    assert numbers_in(store)[0] == 1
    store.close()


CLOSED_CALLS: dict[str, Callable[[RocksStore], object]] = {
    "write": lambda store: store.write(Batch()),
    "sync": lambda store: store.sync(),
    "get_many": lambda store: store.get_many([b""]),
    "view": lambda store: store.view(),
    "catch_up": lambda store: store.catch_up(),
}


@pytest.mark.parametrize("call", CLOSED_CALLS)
def test_closed_store_refuses_every_call(store, call):
    store.close()
    store.close()
    with pytest.raises(ClosedError, match="the store is closed"):
        CLOSED_CALLS[call](store)


def test_database_closed_behind_our_back_is_closed(path):
    store = open_store(path, "strict")
    store._database.close()
    with pytest.raises(ClosedError, match="reading: the store is closed"):
        store.get_many([b"k"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Busy: ", UnavailableError),
        ("TimedOut", UnavailableError),
        ("Incomplete: ", UnavailableError),
        ("something that nobody has ever read", CorruptionError),
    ],
)
def test_text_that_cannot_be_provoked_has_its_kind(text, kind):
    with pytest.raises(ShardlogError, match=f"^testing: {text}") as told:  # noqa: SIM117 - the outer one is the claim
        with rocks._translated(Path("db"), "testing"):
            raise Exception(text)  # noqa: TRY002 - rocksdict raises nothing else
    assert type(told.value) is kind
    assert type(told.value.__cause__) is Exception


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
    view = store.view()
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


def test_store_that_is_shutting_down_is_unavailable(path):
    store = open_store(path, "strict")
    put(store, 1)
    store._database.cancel_all_background(True)
    with pytest.raises(UnavailableError, match="closing: Shutdown in progress"):
        store.close()


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
    assert [item for family in FAMILIES for item in store.view().items(family, b"", None)] == [
        (b"k", trap)
    ] * 2
    store.close()
    assert not path.with_name("touched").exists()


@pytest.mark.parametrize("leave", ["view", "iteration"])
def test_close_frees_the_lock_though_views_are_alive(path, leave):
    store = open_store(path, "strict")
    put(store, 1, 2)
    view = store.view()
    items = view.items("log", b"", None)
    if leave == "iteration":
        next(items)
    store.close()
    open_store(path, "strict").close()
    with pytest.raises(ClosedError, match="closed while it was being read"):
        list(items)


# --- secondaries ------------------------------------------------------------------------------


@pytest.fixture
def beside(store, root) -> Iterator[RocksStore]:
    """A store as a reader in another process opens it, which has seen the number 1."""
    put(store, 1)
    store.sync()
    secondary = open_secondary(store.path, root / "private")
    yield secondary
    secondary.close()


def rewritten(store: RocksStore, value: bytes) -> None:
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
        assert beside.view().at_or_after("default", b"m") == (b"m", value)


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
    view = beside.view()
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


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "atomic_flush=true",
        "max_total_wal_size=67108864",
        "paranoid_checks=true",
        "max_open_files=-1",
        "keep_log_file_num=2",
        "wal_recovery_mode=kAbsoluteConsistency",
        "manual_wal_flush=false",
        "write_buffer_size=16777216",
    ],
)
def test_option_is_in_force_on_disk(store, line):
    text = max(store.path.glob("OPTIONS-*")).read_text()
    assert line in [one.strip() for one in text.splitlines()]


def test_blocks_compress_themselves_and_small_keys_are_compressed_by_the_store(store):
    text = max(store.path.glob("OPTIONS-*")).read_text()
    sections = text.split("[CFOptions ")[1:]
    chosen = {part.split('"')[1]: part.split("compression=")[1].split()[0] for part in sections}
    assert chosen == {"default": "kLZ4Compression", "log": "kNoCompression"}


def test_one_cache_and_one_budget_serve_the_process():
    assert rocks._shared_cache() is rocks._shared_cache()
    assert rocks._shared_buffers() is rocks._shared_buffers()


def test_write_ahead_logs_are_bounded_though_the_families_differ_in_size(root):
    store = open_store(root / "db", "strict", write_buffer_bytes=64 * 1024)
    put(store, *range(2000), size=400)
    kept = sum(log.stat().st_size for log in store.path.glob("*.log"))
    store.close()
    assert kept < 2000 * 800 / 2
