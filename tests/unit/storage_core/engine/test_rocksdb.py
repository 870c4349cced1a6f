"""The seam to RocksDB: what it does, which kind each error gets, which options are in force."""

import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
)
from storage_core.engine import rocksdb_binding
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import RocksDbStore, open_secondary, open_store
from storage_core.engine.rocksdb_binding import OPENING_KINDS, translated_errors
from tests.log.on_disk import flip_bit
from tests.log.writing.interruptions import interrupted_everywhere
from tests.unit.storage_core.engine.stores import (
    FAMILIES,
    cut,
    filled,
    key_of,
    left_by_a_crash,
    numbers_in,
    put,
)
from tests.waiting import await_that

# --- what it does -----------------------------------------------------------------------------


def test_items_come_in_order_from_start_to_before_end(store):
    put(store, 5, 1, 9, 3)
    view = store.snapshot()
    for family in FAMILIES:
        items = view.items(family, key_of(2), key_of(9))
        assert [key for key, _ in items] == [key_of(3), key_of(5)]
    assert list(view.items("default", key_of(10), None)) == []


def test_interruption_at_the_end_of_a_range_is_not_swallowed(store):
    put(store, 1, 3, 5)

    def read(_: int) -> None:
        with closing(store.snapshot()) as view:
            list(view.items("log", key_of(1), key_of(5)))

    for _ in interrupted_everywhere(read):
        pass
    assert numbers_in(store, "log") == [1, 3, 5]


def test_no_view_is_opened_while_what_deletes_is_written(store):
    put(store, 1, 2, families=("default",))
    batch = Batch()
    batch.delete(key_of(1))
    batch.put(key_of(3), b"")
    writing = threading.Thread(target=store.write, args=(batch,))
    with store._lock:
        writing.start()
        for _ in range(50):
            assert numbers_in(store, "default") == [1, 2]
    writing.join()
    assert numbers_in(store, "default") == [2, 3]


def test_small_keys_that_were_deleted_give_their_space_back(store):
    batch, deletes = Batch(), Batch()
    for number in range(5000):
        batch.put(key_of(number), b"")
        deletes.delete(key_of(number))
    for written in (batch, deletes):
        store.write(written)
        store.flush()

    def is_free() -> bool:
        entries: int = sum(file["num_entries"] for file in store._opened().live_files())
        return entries < 5000

    await_that(is_free, "what was deleted is gone from the files")


def test_view_stays_what_it_was(store):
    put(store, 1)
    view = store.snapshot()
    put(store, 2)
    assert [len(list(view.items(family, b"", None))) for family in FAMILIES] == [1, 1]
    assert numbers_in(store) == [1, 2]


# --- the table of errors, each row by the real error ------------------------------------------


def test_second_open_in_this_process_is_locked(store):
    with pytest.raises(ShardLockedError, match="lock hold by current process"):
        open_store(store.path, "strict")


def test_second_open_in_another_process_is_locked(store):
    program = (
        "import sys; from pathlib import Path; from storage_core.engine import rocksdb\n"
        "try: rocksdb.open_store(Path(sys.argv[1]), 'strict')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, store.path], capture_output=True, text=True, check=True
    ).stdout
    assert ran.startswith("ShardLockedError opening (strict recovery): IO error: While lock file")


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
    # IMPORTANT: a module first imported in here would leave bytecode that ends at the limit, and
    # every later import of it would fail.
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_none


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


def test_reader_on_a_disk_that_takes_no_more_is_told_so_and_opens_later(path, root):
    store = open_store(path, "strict")
    put(store, 1)
    store.sync()
    with (
        files_end_at(10),
        pytest.raises(UnavailableError, match=r"opening as a reader: .*large \(os error 27\)"),
    ):
        open_secondary(path, root / "first")
    reader = open_secondary(path, root / "second")
    assert numbers_in(reader) == [1]
    reader.close()
    store.close()
    open_store(path, "strict").close()


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


def test_store_that_is_shutting_down_is_unavailable(path):
    store = open_store(path, "strict")
    put(store, 1)
    store._database.cancel_all_background(True)
    with pytest.raises(UnavailableError, match="closing: Shutdown in progress"):
        store.close()


CLOSED_CALLS: dict[str, Callable[[RocksDbStore], object]] = {
    "write": lambda store: store.write(Batch()),
    "sync": lambda store: store.sync(),
    "get_many": lambda store: store.get_many([b""]),
    "snapshot": lambda store: store.snapshot(),
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


def test_close_goes_on_where_one_was_interrupted_behind_the_database(path):
    store = open_store(path, "strict")
    store._database.close()
    store.close()
    store.close()
    open_store(path, "strict").close()


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
    with pytest.raises(ShardlogError, match=f"^testing: {text}") as raised:  # noqa: SIM117 - the outer one is the claim
        with translated_errors(Path("db"), "testing"):
            raise Exception(text)  # noqa: TRY002 - rocksdict raises nothing else
    assert type(raised.value) is kind
    assert type(raised.value.__cause__) is Exception


@pytest.mark.parametrize("said", ["Permission denied", "Read-only file system"])
def test_store_that_may_not_be_written_is_refused_when_it_is_opened(said):
    text = f"IO error: While open a file for appending: db/MANIFEST-5: {said}"
    with pytest.raises(InvalidRequestError, match=said):  # noqa: SIM117 - the outer one is the claim
        with translated_errors(Path("db"), "opening", OPENING_KINDS):
            raise Exception(text)  # noqa: TRY002 - as above


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "atomic_flush=true",
        "max_total_wal_size=67108864",
        "paranoid_checks=true",
        "table_cache_numshardbits=0",
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
    assert rocksdb_binding._shared_cache() is rocksdb_binding._shared_cache()
    assert rocksdb_binding._shared_buffers() is rocksdb_binding._shared_buffers()


def test_write_ahead_logs_are_bounded_though_the_families_differ_in_size(root):
    store = open_store(root / "db", "strict", write_buffer_bytes=64 * 1024)
    put(store, *range(2000), size=400)
    size = 0
    for log in store.path.glob("*.log"):
        # RocksDB's own thread removes the oldest meanwhile.
        with suppress(FileNotFoundError):
            size += log.stat().st_size
    store.close()
    assert size < 2000 * 800 / 2
