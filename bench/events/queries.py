"""QUERY over a store that stays open: one context among 10,000, and a figure of all events.

Of 2 M events of one type all are sealed. The second side has the last 30,000 of them hot, as a
store has that seals by itself. Each query is of another context.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row
from storage_core import SchemaEntry, Stream, StreamOptions, StreamReader
from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.roots import list_streams
from typed_events.event_store import EventStore
from typed_events.language.commands import Aggregate, Query
from typed_events.language.expressions import Field
from typed_events.query.queries import Queries
from typed_events.types.stored_types import TYPES_STREAM

_EVENTS: Final = 2_000_000
_HOT: Final = 30_000
_CONTEXTS: Final = 10_000
_BATCH: Final = 100_000
_CONTEXTS_ASKED: Final = 60
_FIGURES: Final = 9
_FIRST_US: Final = 1_780_000_000_000_000
_STATUSES: Final = ("new", "paid", "sent")
_DEFINE: Final = """DEFINE purchase FIELDS {
    status: ["new", "paid", "sent"], amount: "int", price: "float", note: "string", ok: "bool"
}"""
_OPTIONS: Final = StreamOptions(shards=1, unit="us", key_mode="dictionary")
_TYPE: Final = "purchase"


@contextmanager
def _stores(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with ExitStack() as stack:
        contestants = {}
        for name, hot in (("sealed", 0), ("hot", _HOT)):
            _fill(workspace / name, hot)
            queries = stack.enter_context(Queries(workspace / name))
            contestants[name] = partial(_measured, queries)
        yield contestants


def _fill(root: Path, hot: int) -> None:
    with EventStore.open(root) as store:
        store.execute(_DEFINE)
    with StreamReader.open(root, TYPES_STREAM) as types:
        text = types.read().column("payload")[0].as_py().decode()
    schema = AvroSchema.parse(text)
    entry = SchemaEntry(0, schema.identity, schema.text)
    chance = np.random.default_rng(5)
    with _opened(root) as stream:
        for first in range(0, _EVENTS, _BATCH):
            fields: dict[str, Any] = {
                "status": [_STATUSES[n] for n in chance.integers(0, 3, _BATCH)],
                "amount": chance.integers(0, 1000, _BATCH),
                "price": chance.random(_BATCH),
                "note": [f"note {n % 97}" for n in range(_BATCH)],
                "ok": chance.random(_BATCH) < 0.5,
            }
            contexts = chance.integers(0, _CONTEXTS, _BATCH)
            columns = pa.table(
                {
                    "primary": np.arange(_FIRST_US + first, _FIRST_US + first + _BATCH),
                    "key": pa.array([b"customer-%d" % n for n in contexts], pa.binary()),
                    "payload": encode_batch(pa.table(fields), schema, frame=frame_of(schema, None)),
                    "version": pa.array([1] * _BATCH, pa.uint16()),
                    "schema": pa.array([0] * _BATCH, pa.int32()),
                }
            )
            is_last = first + _BATCH == _EVENTS
            cut = _BATCH - hot if is_last else _BATCH
            stream.append_batch(columns.slice(0, cut), schemas=[entry])
            stream.commit()
            if is_last:
                stream.seal()
                if hot:
                    stream.append_batch(columns.slice(cut), schemas=[entry])
                    stream.commit()


def _opened(root: Path) -> Stream:
    """Return the stream of the type, made where DEFINE made none."""
    if _TYPE in list_streams(root):
        return Stream.open(root, _TYPE)
    return Stream.create(root, _TYPE, _OPTIONS)


def _measured(queries: Queries) -> Measured:
    chance = np.random.default_rng()
    seconds = []
    for context in chance.integers(0, _CONTEXTS, _CONTEXTS_ASKED):
        start = time.perf_counter()
        answer = queries.query(Query(_TYPE, f"customer-{context}"))
        rows = sum(batch.num_rows for batch in answer.batches)
        seconds.append(time.perf_counter() - start)
        assert rows
    figures = Query(
        _TYPE,
        aggregates=(Aggregate("count"), Aggregate("avg", Field("price"))),
        by=(Field("status"),),
    )
    of_all = []
    for _ in range(_FIGURES):
        start = time.perf_counter()
        assert sum(batch.num_rows for batch in queries.query(figures).batches)
        of_all.append(time.perf_counter() - start)
    return {
        "context": statistics.median(seconds),
        "figures": statistics.median(of_all),
    }


EVENT_QUERIES: Final = Experiment(
    "event-queries",
    tuple(
        Row(
            f"event-queries/{field}-{name}",
            f"{text}, {state}, p50",
            (name, field),
            sense="at most",
            limit=limit,
            wanted=wanted,
        )
        for name, state in (("sealed", "all sealed"), ("hot", f"the last {_HOT:,} hot"))
        for field, text, limit, wanted in (
            ("context", "QUERY of one context among 10,000 over 2 M events", 0.015, 0.003),
            ("figures", "COUNT and AVG by an enum over 2 M events", 0.4, 0.1),
        )
    ),
    _stores,
    bytes_needed=2**30,
    rounds_max=3,
)
