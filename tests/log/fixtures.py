"""Fixtures of the scenarios, and of the unit tests that need a stream.

Stores live in memory where the machine has a file system for it: what a disk may lose is the
business of the fault tests, and here only costs time.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_core.transactions import staged_rows
from tests.log.disks import ReinedDisk
from tests.log.hooked_disk import HookedDisk
from tests.log.topics import TopicCopy
from tests.log.workbench import Workbench

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of one's own is made in it


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty folder that is gone afterwards, with all that tests put beside it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        root = Path(folder) / "root"
        root.mkdir()
        yield root


@pytest.fixture
def make_bench(root: Path) -> Iterator[Callable[..., Workbench]]:
    """Make workbenches, each with a stream of one shard unless told otherwise."""
    benches: list[Workbench] = []

    def make(**options: Any) -> Workbench:
        benches.append(Workbench(root, f"stream-{len(benches)}", **options))
        return benches[-1]

    yield make
    for bench in benches:
        bench.release()


@pytest.fixture(scope="module")
def lasting_bench() -> Iterator[Workbench]:
    """A workbench with a stream of one shard, shared by all tests of a module."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        bench = Workbench(Path(folder), "stream", unit="sequence", jitter=2)
        yield bench
        bench.release()


@pytest.fixture
def bench(make_bench: Callable[..., Workbench]) -> Workbench:
    """A workbench with a stream of one shard."""
    return make_bench()


@pytest.fixture
def disk() -> ReinedDisk:
    """A disk that the test holds by the reins, with a clock turned by hand."""
    return ReinedDisk()


@pytest.fixture
def hooked() -> HookedDisk:
    """A disk that calls back, with a clock turned by hand."""
    return HookedDisk()


@pytest.fixture
def nothing_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged rows go to a file with each write."""
    monkeypatch.setattr(staged_rows, "BUFFERED_BYTES_MAX", 1)


@pytest.fixture
def copy(root: Path) -> Iterator[TopicCopy]:
    """A topic's copy without shards."""
    copy = TopicCopy(root)
    yield copy
    copy.release()


@pytest.fixture
def filled(copy: TopicCopy) -> TopicCopy:
    """A topic's copy with shard 3, born at 100, open for writing."""
    copy.add({3: 100})
    copy.open(3)
    return copy
