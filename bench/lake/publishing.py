"""Publishing: how fast sealed rows come into a table, and what ingestion beside it loses.

Readings of ten fields are sealed as they come, 32,768 rows a part, which is more work for the same
rows than parts that were merged. A process publishes them to a table in a directory of this
machine, again and again to a new one, while ingestion appends to another stream as fast as it can;
or it publishes what a process beside it seals of the stream that is appended to, as in a worker.
SHARDLOG_BENCH_PUBLISH_ROWS says how many rows there are of each.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa

from bench.child import answer_of
from bench.log.sensors import ENTRIES, readings
from bench.measure import Contestant, Experiment, Measured, Row, timed
from bench.workspace import empty_directory
from storage_core import PartBuilder, Stream, StreamOptions, StreamOrigin, StreamReader
from storage_core.lake import (
    LakePublisher,
    PublishOrder,
    ShardPublished,
    lake_target,
    publish_shard,
)

_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_PUBLISH_ROWS", "2000000"))
_SEALED: Final = "sealed"
_SEAL_ROWS: Final = 32_768
_POOL_ROWS: Final = 256_000
# Between two looks where nothing was due; a worker's are ten seconds apart.
_REST_S: Final = 0.1
Beside = Literal["nothing", "publishing", "sealing", "both"]
_BESIDE: Final[tuple[Beside, ...]] = get_args(Beside)


@contextmanager
def _publishing(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    pool = list(readings(_POOL_ROWS))
    root = workspace / "root"
    root.mkdir()
    _fill_with_parts(root, pool, workspace / "nowhere")
    yield {
        "alone": lambda: _alone(workspace, root),
        **{beside: partial(_ingest, workspace, root, pool, beside) for beside in _BESIDE},
    }


def _fill_with_parts(root: Path, pool: list[pa.RecordBatch], lake: Path) -> None:
    """Seal rows as they come, of a stream that would be published somewhere."""
    with _partition(root, _SEALED, lake) as stream:
        end, sealed = 0, 0
        for batch in _rows(pool):
            end = _append(stream, batch, end)
            if end - sealed >= _SEAL_ROWS:
                stream.seal()
                sealed = end
        stream.seal()


def _partition(root: Path, name: str, lake: Path) -> Stream:
    """Make a stream that copies a topic of one partition."""
    origin = StreamOrigin("kafka", name, f"id-of-{name}", "integer", "timestamp", "avro")
    Stream.create(root, name, StreamOptions(lake=str(lake)), origin=origin).close()
    Stream.add_shards(root, name, {0: 0})
    return Stream.open(root, name)


def _append(stream: Stream, batch: pa.RecordBatch, begin: int) -> int:
    """Store a batch as the next records of the partition; return where they end."""
    end = begin + batch.num_rows
    stream.append_batch(batch, shard=0, addresses=np.arange(begin, end), schemas=ENTRIES)
    stream.commit()
    return end


def _rows(pool: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of a pool over and over, so many rows or a few more."""
    rows = 0
    for number in count():
        if rows >= _ROWS:
            return
        batch = pool[number % len(pool)]
        rows += batch.num_rows
        yield batch


def _alone(workspace: Path, root: Path) -> Measured:
    with empty_directory(workspace) as place:
        return answer_of(_publish_whole, root, place / "table")


def _publish_whole(root: Path, table: Path) -> Measured:
    with StreamReader.open(root, _SEALED) as reader:
        rows = reader.shard(0).state().sealed
        with timed(rows) as measured:
            published = publish_shard(reader, 0, lake_target(str(table)))
        assert published.rows == rows
    return measured


def _ingest(workspace: Path, root: Path, pool: list[pa.RecordBatch], beside: Beside) -> Measured:
    """Append rows while others are sealed, published, or both."""
    with ExitStack() as opened:
        place = opened.enter_context(empty_directory(workspace))
        own = place / "root"
        own.mkdir()
        stream = opened.enter_context(_partition(own, "bench", place / "table"))
        builder = opened.enter_context(PartBuilder())
        publisher = opened.enter_context(LakePublisher())
        # The first work begins a process.
        end = _append(stream, pool[0], 0)
        turns: list[_Turns] = []
        if beside in ("sealing", "both"):
            stream.maintain(builder)
            turns.append(_Turns(lambda: _sealed(stream, builder)))
        if beside == "both":
            order = PublishOrder(own, "bench", (0,), lake_target(str(place / "table")))
            _published(publisher, order)
            turns.append(_Turns(lambda: _published(publisher, order).rows))
        if beside == "publishing":
            turns.append(_Turns(_publishing_again(root, place, publisher)))
        for turn in turns:
            turn.begin()
        with timed(_ROWS) as measured:
            for batch in _rows(pool):
                end = _append(stream, batch, end)
        rates = [turn.end() for turn in turns]
    return {"rate": measured["rate"], "beside_rate": rates[-1] if rates else 0.0}


def _sealed(stream: Stream, builder: PartBuilder) -> int:
    return stream.maintain(builder).rows_sealed


def _publishing_again(root: Path, place: Path, publisher: LakePublisher) -> Callable[[], int]:
    """Return what publishes the next step of the sealed stream, to a new table after the last."""
    tables = (lake_target(str(place / f"table-{number}")) for number in count())
    order = PublishOrder(root, _SEALED, (0,), next(tables))
    # The first work begins the process.
    _published(publisher, order)

    def publish() -> int:
        nonlocal order
        published = _published(publisher, order)
        if published.is_whole:
            order = replace(order, target=next(tables))
        return published.rows

    return publish


def _published(publisher: LakePublisher, order: PublishOrder) -> ShardPublished:
    """Publish the next step of the one shard."""
    answer = publisher.publish(order)
    assert not answer.errors, answer.errors
    assert answer.fault is None, answer.fault
    return answer.published[0]


class _Turns:
    """Does a bounded piece of work again and again until it is told to end.

    Where nothing was to be done it rests, so that looking for work takes nothing from appends.
    """

    def __init__(self, turn: Callable[[], int]) -> None:
        self._turn = turn
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._rows, self._seconds = 0, 0.0
        self._error: BaseException | None = None

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> float:
        """Return how many rows a second were done."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._rows / self._seconds

    def _run(self) -> None:
        start = time.perf_counter()
        try:
            while not self._is_over.is_set():
                rows = self._turn()
                self._rows += rows
                self._seconds = time.perf_counter() - start
                if not rows:
                    self._is_over.wait(_REST_S)
        except BaseException as error:  # noqa: BLE001 - the thread that ends this raises it
            self._error = error


LAKE_PUBLISH: Final = Experiment(
    "lake-publish",
    (
        Row(
            "lake-publish/rate",
            f"rows a second that are published of {_ROWS:,} of ten fields, sealed as they come, "
            "while ingestion goes as fast as it can",
            ("publishing", "beside_rate"),
            limit=300_000,
        ),
        Row(
            "lake-publish/ingestion",
            "ingestion while a process publishes, against nothing beside it",
            ("publishing", "rate"),
            ("nothing", "rate"),
            limit=0.85,
        ),
        Row(
            "lake-publish/whole",
            "ingestion while one process seals it and one publishes that, against sealing alone",
            ("both", "rate"),
            ("sealing", "rate"),
            limit=0.85,
        ),
        Row(
            "lake-publish/whole-rate",
            "rows a second of it that are published meanwhile",
            ("both", "beside_rate"),
        ),
        Row(
            "lake-publish/sealed-rate",
            "rows a second that are sealed where nothing is published",
            ("sealing", "beside_rate"),
        ),
        Row(
            "lake-publish/alone",
            "rows a second that are published with nothing beside it",
            ("alone", "rate"),
        ),
        Row(
            "lake-publish/alone-cpu",
            "the same by processor time",
            ("alone", "cpu_rate"),
        ),
    ),
    _publishing,
    rounds_max=5,
    bytes_needed=2**30 + _ROWS * 300,
)
