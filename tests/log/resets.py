"""The vocabulary of resets beside those who open a stream.

copy.reset(), copy.fill()    the log of the one shard is archived; the new one gets rows
OPENERS                      whoever opens a stream, each of which expects the rows of one log
STEPS                        where between reading the files and opening a shard a reset may come
"""

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from storage_core import (
    Stream,
    StreamReader,
    archived_shards,
    describe_stream,
    shard_owners,
    shard_progress,
)
from storage_core.catalog import archived_shards as archiving
from storage_core.catalog import stream_file
from storage_core.export.exporting import export_stream
from storage_core.read.follow import follower
from storage_core.sql import connect
from storage_core.transactions import opening
from tests.log.topics import NAME, TopicCopy
from tests.log.workbench import column_of

ROWS = range(10)


class ResetCopy(TopicCopy):
    """A topic's copy of one shard, whose log is replaced by one with rows of another id."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.add({0: 0})
        self._ids = count(1)
        self.fill()

    def fill(self) -> None:
        with Stream.open(self.root, NAME) as stream:
            self.stream = stream
            self.append(0, ROWS, secondary=next(self._ids))
            stream.commit()

    def reset(self) -> None:
        Stream.archive_shards(self.root, NAME, {0: 0})


def expect_one_log(rows):
    """Expect rows of one log, all of them or none."""
    assert len(rows) in (0, len(ROWS))
    assert len(set(rows)) <= 1


def reads(copy):
    with StreamReader.open(copy.root, NAME) as reader:
        reader.refresh()
        expect_one_log(reader.read().column("secondary").to_pylist())


def tails(copy):
    with StreamReader.open(copy.root, NAME) as reader:
        expect_one_log(column_of(reader.tail(0), "secondary"))


def asks_in_sql(copy):
    with closing(connect(copy.root)) as streams:
        rows = streams.sql(f'SELECT secondary FROM "{NAME}"').fetchall()
        expect_one_log([one for (one,) in rows])


def reads_the_last_archived_log(copy):
    logs = archived_shards(copy.root, NAME)
    if logs:
        with StreamReader.open(copy.root, NAME, archived=logs[-1].lineage) as reader:
            expect_one_log(reader.read().column("secondary").to_pylist())


def writes(copy):
    with Stream.open(copy.root, NAME, shards=[0]) as stream:
        expect_one_log(stream.read().column("secondary").to_pylist())


def writes_to_all(copy):
    with Stream.open(copy.root, NAME) as stream:
        assert stream.verify().is_clean


def looks(copy):
    assert describe_stream(copy.root, NAME).shards == (0,)
    assert set(shard_owners(copy.root, NAME)) == {0}
    assert set(shard_progress(copy.root, NAME)) == {0}


_EXPORTS = count()


def exports(copy):
    export_stream(copy.root, NAME, copy.root.parent / f"export-{next(_EXPORTS)}")


OPENERS: dict[str, Callable[[ResetCopy], None]] = {
    "read": reads,
    "tail": tails,
    "sql": asks_in_sql,
    "archived": reads_the_last_archived_log,
    "writer of the shard": writes,
    "writer of all": writes_to_all,
    "description": looks,
    "export": exports,
}
STEPS = {
    "is the shard there": (stream_file, "_missing_shard"),
    "the marker": (follower, "MarkerReader"),
    "the shard's lock": (opening, "open_shard"),
    "where an archived log lies": (archiving, "replace"),
}
