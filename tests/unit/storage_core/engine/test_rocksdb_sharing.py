"""Many stores, and stores of many files: what one process spends on them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from storage_core.engine.open_files import TABLES_MIN, names_open_now
from storage_core.engine.rocksdb import RocksDbStore, open_secondary, open_store
from tests.log.on_disk import flip_bit
from tests.unit.storage_core.engine.stores import joined, numbers_in, of_small_files, put


@pytest.fixture
def small_files(path) -> Iterator[RocksDbStore]:
    """A store just opened, of some forty small files in the log family."""
    of_small_files(path, 40)
    store = open_store(path, "strict")
    yield store
    store.close()


def test_small_files_of_the_log_are_joined_and_hold_the_same(small_files):
    assert len(joined(small_files).log_files()) < 8
    assert numbers_in(small_files, "log") == list(range(40))


def test_joined_files_are_what_the_next_opening_finds(small_files):
    files = joined(small_files).log_files()
    small_files.close()
    again = open_store(small_files.path, "strict")
    assert again.log_files()[: len(files)] == files
    again.close()


def test_reader_beside_a_join_goes_on_with_the_files_it_has(path, root):
    of_small_files(path, 40)
    (root / "private").mkdir()
    reader = open_secondary(path, root / "private")
    view = reader.snapshot()
    store = open_store(path, "strict")
    joined(store)
    assert [key[-1] for key, _ in view.items("log", b"", None)] == list(range(40))
    view.close()
    reader.catch_up()
    assert numbers_in(reader, "log") == list(range(40))
    store.close()
    reader.close()


def test_file_with_a_bad_block_is_left_alone_and_writes_go_on(path):
    of_small_files(path, 40)
    bad = sorted(path.glob("*.sst"))[20]
    flip_bit(bad, 50)
    store = joined(open_store(path, "strict"))
    put(store, 50)
    store.sync()
    assert bad.exists()
    assert numbers_in(store, "log") == [*range(40), 50]
    store.close()


def test_store_keeps_no_more_files_open_than_it_may(path):
    of_small_files(path, 40)
    for file in path.glob("*.sst"):
        # So that they stay as many as they are.
        flip_bit(file, 50)
    store = joined(open_store(path, "strict", tables_open=TABLES_MIN))
    assert numbers_in(store, "log") == list(range(40))
    tables = [name for name in names_open_now() if name.endswith(".sst") and str(path) in name]
    assert len(tables) == TABLES_MIN
    store.close()


@pytest.mark.parametrize(("files", "threads"), [(0, 1), (3, 3), (40, 16)])
def test_store_is_opened_by_no_more_threads_than_it_has_files(path, files, threads):
    if files:
        of_small_files(path, files)
    open_store(path, "strict").close()
    written = max(path.glob("OPTIONS-*"))
    assert f"max_file_opening_threads={threads}\n" in written.read_text()


def test_many_stores_are_not_flushed_before_each_holds_a_mebibyte(root):
    with ExitStack() as closing:
        for number in range(64):
            store = open_store(root / str(number), "strict")
            closing.callback(store.close)
            put(store, *range(8), size=2**17, families=("log",))
        assert not list(root.rglob("*.sst"))
