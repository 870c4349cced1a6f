"""The ledger of open files: what is needed is told before it is missing."""

import logging
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.engine.open_files import (
    READER_FILES,
    SPARE_FILES,
    TABLES_MAX,
    TABLES_MIN,
    WRITER_FILES,
    OpenFiles,
    files_needed,
)
from tests.log.workbench import batch_of
from tests.waiting import WAIT_MAX_S

SHARD = Path("/logs/s/shard-0000")


def tables_of(shard: Path, count: int) -> list[str]:
    return [f"{shard}/db/{number:06}.sst" for number in range(count)]


class Process:
    """A process of so many open files and two limits."""

    def __init__(self, soft: int, hard: int, *names: str) -> None:
        self.limits = (soft, hard)
        self.names = list(names)
        self.ledger = OpenFiles(lambda: self.limits, self._set, lambda: self.names, str)

    def _set(self, limits: tuple[int, int]) -> None:
        self.limits = limits


class Store:
    """Somebody who has files open."""


def test_what_other_stores_may_still_open_counts():
    process = Process(1000, 1000)
    first = Store()
    process.ledger.opened(first, 900, SHARD)
    with pytest.raises(InvalidRequestError):
        process.ledger.require_for_writer(4, "s")
    process.ledger.closed(first)
    process.ledger.require_for_writer(4, "s")


def test_what_other_stores_have_open_already_does_not_count_twice():
    process = Process(1000, 1000, *tables_of(SHARD, 800))
    first = Store()
    process.ledger.opened(first, 800, SHARD)
    process.ledger.require_for_writer(1, "s")


def test_what_readers_have_open_beside_a_writer_counts_too():
    process = Process(1000, 1000, *tables_of(SHARD, 300), *tables_of(SHARD, 300))
    writer = Store()
    process.ledger.opened(writer, 500, SHARD)
    with pytest.raises(InvalidRequestError, match=r"need 1004 .* 512 of them"):
        process.ledger.require_for_reader(READER_FILES + 151, "151 files to read", "s", 0)


def test_limit_is_raised_for_readers_few_times_and_never_beyond_the_hard_one(caplog):
    process = Process(1024, 20_000)
    with caplog.at_level(logging.WARNING):
        for shard in range(1000):
            process.ledger.require_for_reader(READER_FILES + 10, "10 files", "s", shard)
            process.names += tables_of(SHARD, 18)
    assert process.limits == (20_000, 20_000)
    assert len(caplog.records) == 5


def test_reader_asks_for_what_its_store_has_grown_by():
    process = Process(1000, 4000, *tables_of(SHARD, 950))
    process.ledger.require_for_reader(SPARE_FILES - 14, "more files to read", "s", 0)
    assert process.limits == (1000, 4000)
    process.ledger.require_for_reader(SPARE_FILES - 13, "more files to read", "s", 0)
    assert process.limits == (2000, 4000)


def test_store_that_nobody_has_any_more_is_forgotten():
    process = Process(1000, 1000)
    process.ledger.opened(Store(), 900, SHARD)
    assert process.ledger.stores == 0


def test_each_further_store_has_a_part_of_what_is_left():
    process = Process(20_000, 20_000)
    stores = [Store() for _ in range(300)]
    opened = []
    for store in stores:
        opened.append(process.ledger.tables_for_one_more())
        process.ledger.opened(store, opened[-1], SHARD)
    assert opened == sorted(opened, reverse=True)
    assert TABLES_MIN <= opened[-1] < opened[0] <= TABLES_MAX
    assert sum(opened) + WRITER_FILES * 300 + SPARE_FILES <= 20_000


def test_reader_needs_every_file_of_the_store():
    process = Process(1000, 1000)
    process.ledger.require_for_reader(READER_FILES + 900, "900 files", "s", 3)
    with pytest.raises(InvalidRequestError, match=r"1100 files need .* shard 3"):
        process.ledger.require_for_reader(READER_FILES + 1100, "1100 files", "s", 3)


def test_limit_without_end_is_enough():
    process = Process(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    process.ledger.require_for_writer(4096, "s")


def test_directory_that_cannot_be_listed_is_the_limit_met():
    def refuse() -> list[str]:
        raise OSError(24, "Too many open files")

    ledger = OpenFiles(lambda: (1024, 1024), lambda _: None, refuse)
    with pytest.raises(InvalidRequestError):
        ledger.require_for_writer(1, "s")


def test_readers_alone_read_no_names_of_what_is_open():
    def refuse(_descriptor: str) -> str:
        raise AssertionError

    ledger = OpenFiles(lambda: (1024, 1024), lambda _: None, lambda: ["0"] * 900, refuse)
    ledger.require_for_reader(READER_FILES, "a shard to read", "s")
    with pytest.raises(InvalidRequestError, match="need 1032 open files"):
        ledger.require_for_reader(100, "a shard to read", "s")


def test_stream_that_cannot_be_opened_is_not_made(root):
    program = (
        "import resource, sys; from storage_core import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "try: Stream.create(sys.argv[1], 's', StreamOptions(shards=64))\n"
        "except InvalidRequestError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, root], capture_output=True, text=True, check=True
    ).stdout
    assert "64 shards to write need 14" in ran
    assert not (root / "s").exists()


def test_stream_of_many_shards_raises_the_limit_it_needs(root):
    program = (
        "import resource, sys; from storage_core import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, int(sys.argv[2])))\n"
        "Stream.create(sys.argv[1], 's', StreamOptions(shards=8)).close()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    # A process of its own: what other tests have open counts too.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ran = subprocess.run(
        [sys.executable, "-c", program, root, str(hard)], capture_output=True, text=True, check=True
    ).stdout
    assert files_needed(8) < int(ran) < 512


SHARDS = 20
READ = """
import resource, sys
from storage_core import *
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[2])))
try:
    reader = StreamReader.open(sys.argv[1], "s")
    print(sum(batch.num_rows for batch in reader.scan()))
except InvalidRequestError as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A stream of more files than its readers may have open at first."""
    root = tmp_path_factory.mktemp("wide")
    with Stream.create(root, "s", StreamOptions(shards=32, unit="sequence")) as stream:
        stream.append_batch(batch_of([0] * SHARDS, secondary=list(range(SHARDS))))
    return root


def read_with_hard_limit(root: Path, hard: int) -> list[str]:
    command = [sys.executable, "-c", READ, str(root), str(hard)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=WAIT_MAX_S
    ).stdout.splitlines()


def test_reader_of_many_shards_raises_the_limit_it_needs(wide):
    assert read_with_hard_limit(wide, 4096) == [str(SHARDS), "256"]


def test_reader_of_too_many_shards_is_refused_with_the_number(wide):
    ran, limit = read_with_hard_limit(wide, 96)
    assert re.search(r"files to read need \d+ open files .* it may have 96: raise", ran)
    assert limit == "96"


def test_reader_of_more_markers_than_files_is_refused_with_the_number(wide):
    ran, limit = read_with_hard_limit(wide, 64)
    assert re.search(r"32 markers to read need \d+ open files .* it may have 64: raise", ran)
    assert limit == "64"


def test_reader_asks_anew_when_its_store_has_more_files(make_bench):
    bench = make_bench()
    bench.append([1])
    bench.reopen()
    with bench.read_beside() as reader:
        reader.refresh()
        before = reader._open.by_number[0]._tables
        bench.append([2])
        bench.reopen()
        reader.refresh()
        assert reader._open.by_number[0]._tables > before
