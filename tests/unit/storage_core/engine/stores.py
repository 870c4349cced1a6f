"""Words for tests of bare stores: numbers put under keys, in both families alike."""

from collections.abc import Callable, Collection
from concurrent.futures import Future
from pathlib import Path

from storage_core.engine.key_value import Batch
from storage_core.engine.log_compaction import SstFile, files_to_compact
from storage_core.engine.rocksdb import RocksDbStore, open_store
from storage_core.engine.segments import SegmentWriter
from storage_core.errors import ShardlogError
from tests.snapshots import snapshot

FAMILIES = ("default", "log")


def put(
    store: RocksDbStore, *numbers: int, size: int = 100, families: tuple[str, ...] = FAMILIES
) -> None:
    """Write a value under each number, the same in each family, each in a batch of its own."""
    for number in numbers:
        batch = Batch()
        for family in families:
            batch.put(key_of(number), number.to_bytes(size, "big"), family)
        store.write(batch)


def batch_of(*blocks: bytes) -> Batch:
    """Return a batch that writes blocks."""
    batch = Batch()
    for number, block in enumerate(blocks):
        batch.put(key_of(number), block, "log")
    return batch


def references_to(writer: SegmentWriter, *blocks: bytes) -> list[bytes]:
    """Write blocks; return what refers to them."""
    batch = batch_of(*blocks)
    writer.take_blocks(batch)
    return [value for family, _, value in batch.puts if family == "log"]


def key_of(number: int) -> bytes:
    return b"z" + number.to_bytes(4, "big")


def numbers_in(store: RocksDbStore, family: str = "default", start: int = 0) -> list[int]:
    """Return the numbers under which there are values."""
    view = store.snapshot()
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


def left_by_a_crash(store: RocksDbStore, copy: Path) -> Path:
    """Return a copy of a store's files as the kernel has them at this moment."""
    store.sync()
    return snapshot(store.path, copy)


def cut(path: Path) -> None:
    """Cut some bytes off a file's end."""
    path.write_bytes(path.read_bytes()[:-10])


def of_small_files(path: Path, count: int) -> None:
    """Make a closed store of so many values in the log family, each in a file of its own."""
    store = open_store(path, "strict")
    for number in range(count):
        put(store, number, families=("log",))
        store._log.flush()
    store.close()


def joined(store: RocksDbStore) -> RocksDbStore:
    """Return a store once what it began at its opening is over."""
    assert store._compactor is not None
    under_way = store._compactor._running
    assert under_way is not None
    under_way.result()
    return store


def files_of(*sizes: int) -> list[SstFile]:
    """Return neighbouring files of these sizes, named by their place."""
    return [_file(str(at), at, at, size) for at, size in enumerate(sizes)]


def grown(flushes: list[int]) -> tuple[list[SstFile], list[int], float]:
    """Return the files that flushes of these sizes end as, each one's rewritings, and the share."""
    files: list[SstFile] = []
    times: list[int] = []
    rewritten = 0
    for number, flush in enumerate(flushes):
        files.append(_file(f"flush {number}", number, number, flush))
        times.append(0)
        while group := files_to_compact(files):
            first, size = files.index(group[0]), sum(file.size for file in group)
            part = slice(first, first + len(group))
            rewritten += size
            files[part] = [_file(f"{group[0].name} joined", number, number, size)]
            times[part] = [max(times[part]) + 1]
    return files, times, rewritten / sum(flushes)


class GatheringStore:
    """A store whose files are numbers; what it is asked to do is done at once, and kept."""

    def __init__(
        self,
        *sizes: int,
        unreadable: Collection[str] = (),
        failure: ShardlogError | None = None,
        joins_nothing: bool = False,
    ) -> None:
        self.path = Path("/")
        self.files = files_of(*sizes)
        self.joined: list[tuple[str, str]] = []
        self.read: list[str] = []
        self.tries = 0
        self._unreadable = unreadable
        self._failure = failure
        self._joins_nothing = joins_nothing

    def add(self, size: int) -> None:
        """Flush a file behind the others."""
        number = len(self.files)
        self.files.append(_file(str(number), number, number, size))

    def start(self, task: Callable[[], None]) -> "Future[None]":
        done: Future[None] = Future()
        task()
        done.set_result(None)
        return done

    def has_blocks(self, start: bytes, end: bytes) -> bool:
        return any(start <= file.first < end for file in self.files)

    def remove_blocks(self, start: bytes, end: bytes) -> None:
        self.files = [file for file in self.files if not start <= file.first < end]

    def log_files(self) -> list[SstFile]:
        return list(self.files)

    def is_readable(self, file: SstFile, may_go_on: Callable[[], bool]) -> bool:
        assert may_go_on()
        self.read.append(file.name)
        return file.name not in self._unreadable

    def compact(self, first: bytes, last: bytes) -> None:
        self.tries += 1
        if self._failure is not None:
            raise self._failure
        if self._joins_nothing:
            return
        group = [file for file in self.files if first <= file.first <= last]
        self.joined.append((group[0].name, group[-1].name))
        first_index, size = self.files.index(group[0]), sum(file.size for file in group)
        name = f"{group[0].name} to {group[-1].name}"
        self.files[first_index : first_index + len(group)] = [SstFile(name, first, last, size)]


def _file(name: str, first: int, last: int, size: int) -> SstFile:
    return SstFile(name, first.to_bytes(4, "big"), last.to_bytes(4, "big"), size)
