"""The source over servers of several roots: a partition moves, and each row comes once."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import ForeignDataError, UnavailableError
from streaming_jobs.source.executor.open_readers import OPEN_READERS
from tests.log.served import AT_ONCE
from tests.unit.streaming_jobs.source.source_lab import SourceLab, rows_of


class Owners:
    """Two roots of one topic, and a lab that reads both by their servers."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.roots = [SourceLab(place / name) for name in ("a", "b")]
        self.servers: list[ShardServer] = []
        for root, starts in zip(self.roots, ({0: 0, 1: 0}, {0: 4}), strict=True):
            root.create_topic(starts)
            stack.callback(root.close)
            settings = ServeSettings(root=root.root, listen="127.0.0.1:0")
            self.servers.append(stack.enter_context(ShardServer(settings)))
        self.reader = SourceLab(place / "nowhere")
        self.reader.servers = ",".join(server.address for server in self.servers)

    def tail(self) -> Any:
        return self.reader.tail(startingOffsets="earliest")


def offsets(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[Owners]:
    with ExitStack() as stack:
        yield Owners(tmp_path, stack)
        OPEN_READERS.close()


def test_query_goes_on_where_a_partition_has_moved_to(owners: Owners) -> None:
    a, b = owners.roots
    a.put(0, [0, 1, 2, 3, 4, 5])
    a.put(1, [0, 1])
    tail = owners.tail()
    start = tail.initialOffset()
    middle = tail.latestOffset(start, None)
    assert offsets(rows_of(tail, tail.partitions(start, middle))) == [
        *((0, at) for at in range(6)),
        *((1, at) for at in range(2)),
    ]
    a.close()
    b.put(0, [4, 5, 6, 7])
    end = owners.tail().latestOffset(middle, None)
    again = owners.tail()
    assert offsets(rows_of(again, again.partitions(middle, end))) == [(0, 6), (0, 7)]
    # A batch that is tried again, and one from the first on, over both pieces.
    assert len(rows_of(again, again.partitions(start, end))) == 10


def test_task_that_finds_no_owner_says_who_was_asked(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_core.owners_reader.ServerOptions", lambda: AT_ONCE)
    a, _ = owners.roots
    a.put(0, [0, 1, 2, 3, 4, 5])
    tail = owners.tail()
    start = tail.initialOffset()
    end = tail.latestOffset(start, None)
    tasks = tail.partitions(start, end)
    owners.servers[0].close()
    with pytest.raises(UnavailableError, match=owners.servers[0].address):
        rows_of(tail, tasks)


def test_topic_made_anew_is_not_read_by_the_old_offsets(owners: Owners, tmp_path: Path) -> None:
    a, _ = owners.roots
    a.put(0, [0, 1])
    tail = owners.tail()
    end = tail.latestOffset(tail.initialOffset(), None)
    other = SourceLab(tmp_path / "other")
    other.create(shards=2)
    owners.reader.servers = None
    owners.reader.root = other.root
    with pytest.raises(ForeignDataError, match="re-created"):
        owners.tail().latestOffset(end, None)
    other.close()
