"""Sealing: how fast rows become parts, and what ingestion beside it loses.

Telemetry of ten Avro fields from a pool of batches, with a double that is all chance; as sensors
give it, no row twice, which tells how many bytes a row takes; and bytes that nobody reads.
Ingestion goes as fast as it can, or at a pace, while maintenance seals what waits: not at all, in a
thread of the same process, or in one beside it. SHARDLOG_BENCH_SEAL_ROWS says how many rows there
are.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from bench.log.avro import MEASURED
from bench.log.peers import ONE_SHARD
from bench.log.sensors import ENTRIES as READINGS
from bench.log.sensors import readings
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from bench.records import DEVICES, FIRST_PRIMARY, record_batches
from bench.workspace import empty_directory
from storage_core import PartBuilder, SchemaEntry, Stream
from storage_core.avro import AvroSchema, encode_batch, frame_of

_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_SEAL_ROWS", "2000000"))
_BATCH_ROWS: Final = 16_384
_POOL: Final = 16
_PACE: Final = 200_000
# Between two looks where nothing was due; a worker's are ten seconds apart.
_REST_S: Final = 0.1
_REGISTRY_ID: Final = 7
_SCHEMA: Final = AvroSchema.parse(json.dumps(MEASURED))
_ENTRIES: Final = (SchemaEntry(_REGISTRY_ID, _SCHEMA.identity, _SCHEMA.text),)
_untyped: Any = pa
Beside = Literal["nothing", "a thread", "a process"]


@contextmanager
def _sealing(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    telemetry = [_telemetry(number * _BATCH_ROWS) for number in range(_POOL)]
    plain = list(record_batches(_POOL, _BATCH_ROWS))
    runs: dict[str, Contestant] = {
        "telemetry": partial(_seal, workspace, partial(_again, telemetry), _ENTRIES),
        "readings": partial(_seal, workspace, partial(readings, _ROWS), READINGS),
        "bytes": partial(_seal, workspace, partial(_again, plain), ()),
    }
    for beside in ("nothing", "a thread", "a process"):
        runs[f"flat out, {beside}"] = partial(_ingest, workspace, telemetry, beside, None)
        runs[f"paced, {beside}"] = partial(_ingest, workspace, telemetry, beside, _PACE)
    yield runs


def _again(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield as many rows as are sealed, the same batches over and over."""
    return (batches[number % len(batches)] for number in range(-(-_ROWS // _BATCH_ROWS)))


def _seal(
    workspace: Path,
    batches: Callable[[], Iterator[pa.RecordBatch]],
    schemas: tuple[SchemaEntry, ...],
) -> Measured:
    """Seal rows that wait, with nothing beside it."""
    with empty_directory(workspace) as path, Stream.create(path, "bench", ONE_SHARD) as stream:
        before, payload_bytes = _written(), 0
        for batch in batches():
            stream.append_batch(batch, schemas=schemas)
            payload_bytes += batch.column("payload").nbytes
        stream.commit()
        appended = _written()
        start = time.perf_counter()
        rows = stream.seal().rows
        seconds = time.perf_counter() - start
        sealed = _written()
        file_bytes = sum(one.path.stat().st_size for one in stream.parts())
    return {
        "rate": rows / seconds,
        "bytes_a_row": file_bytes / rows,
        "written_bytes": sealed - before,
        "parts_bytes": sealed - appended,
        "payload_bytes": payload_bytes,
    }


def _ingest(
    workspace: Path, batches: list[pa.RecordBatch], beside: Beside, pace: int | None
) -> Measured:
    """Append rows while those that wait are sealed."""
    with (
        empty_directory(workspace) as path,
        Stream.create(path, "bench", ONE_SHARD) as stream,
        PartBuilder() as builder,
    ):
        for batch in batches:
            stream.append_batch(batch, schemas=_ENTRIES)
        stream.commit()
        used = builder if beside == "a process" else None
        if beside != "nothing":
            # The first work begins the process.
            stream.maintain(used)
        sealing = _Sealing(stream, used)
        if beside != "nothing":
            sealing.begin()
        seconds = []
        start = time.perf_counter()
        for number in range(-(-_ROWS // _BATCH_ROWS)):
            if pace is not None:
                due = start + number * _BATCH_ROWS / pace
                time.sleep(max(0.0, due - time.perf_counter()))  # noqa: TID251 - it is the pace
            begin = time.perf_counter()
            stream.append_batch(batches[number % len(batches)], schemas=_ENTRIES)
            stream.commit()
            seconds.append(time.perf_counter() - begin)
        rate = len(seconds) * _BATCH_ROWS / (time.perf_counter() - start)
        sealed = sealing.end() if beside != "nothing" else 0.0
    return {"rate": rate, "sealed_rate": sealed, **latencies(seconds)}


class _Sealing:
    """Maintains a stream again and again, until it is told to end; where nothing is due it rests.

    A turn that finds nothing to do is short, but without a rest between them they take the
    interpreter from appends at every step of theirs: a commit then takes 350 ms instead of 30.
    """

    def __init__(self, stream: Stream, builder: PartBuilder | None) -> None:
        self._stream, self._builder = stream, builder
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._rows, self._seconds = 0, 0.0

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> float:
        """Return how many rows a second were sealed."""
        self._is_over.set()
        self._thread.join()
        return self._rows / self._seconds

    def _run(self) -> None:
        start = time.perf_counter()
        while not self._is_over.is_set():
            done = self._stream.maintain(self._builder)
            self._rows += done.rows_sealed
            self._seconds = time.perf_counter() - start
            if done.is_idle:
                self._is_over.wait(_REST_S)


def _telemetry(first: int) -> pa.RecordBatch:
    """Return rows whose payloads have ten fields."""
    chance = np.random.default_rng(first)
    numbers = np.arange(first, first + _BATCH_ROWS)
    devices = chance.integers(0, DEVICES, _BATCH_ROWS).astype(np.int32)
    names = _untyped.array([f"device-{number}" for number in range(DEVICES)])
    kinds = _untyped.array(["A", "B", "C"])
    columns: dict[str, Any] = {
        "device": _untyped.array(devices),
        "at": _untyped.array(FIRST_PRIMARY + numbers),
        "sequence": _untyped.array(numbers),
        "value": _untyped.array(chance.normal(size=_BATCH_ROWS)),
        "kind": kinds.take(_untyped.array(numbers % 3)),
        "name": names.take(_untyped.array(devices)),
        "valid": _untyped.array(numbers % 2 == 0),
        "low": _untyped.array(np.full(_BATCH_ROWS, 1.5), mask=numbers % 3 > 0),
        "note": _untyped.array(np.full(_BATCH_ROWS, "a note"), mask=numbers % 4 > 0),
        "count": _untyped.array((numbers % 100).astype(np.int32)),
    }
    schema = _SCHEMA.arrow_schema()
    values = _untyped.table([columns[each.name].cast(each.type) for each in schema], schema=schema)
    return pa.RecordBatch.from_pydict(
        {
            "primary": FIRST_PRIMARY + numbers,
            "secondary": devices,
            "payload": encode_batch(values, _SCHEMA, frame=frame_of(_SCHEMA, _REGISTRY_ID)),
            "schema": np.zeros(_BATCH_ROWS, np.int32),
        }
    )


def _written() -> int:
    """Return how many bytes this process has had written to disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def _beside(beside: Beside, how: str, pace: str) -> tuple[Row, ...]:
    name = beside.split(" ")[-1]
    return (
        Row(
            f"seal/{how}-{name}",
            f"ingestion {pace} while {beside} seals, against no sealing",
            (f"{pace}, {beside}", "rate"),
            (f"{pace}, nothing", "rate"),
            limit=0.85 if beside == "a process" else None,
        ),
        Row(
            f"seal/{how}-{name}-rate",
            f"rows a second that {beside} seals beside ingestion {pace}",
            (f"{pace}, {beside}", "sealed_rate"),
        ),
        Row(
            f"seal/{how}-{name}-p99",
            f"p99 of commits of ingestion {pace} while {beside} seals, against no sealing",
            (f"{pace}, {beside}", "p99"),
            (f"{pace}, nothing", "p99"),
            sense="at most",
        ),
    )


SEALING: Final = Experiment(
    "seal",
    (
        Row(
            "seal/telemetry",
            f"rows a second that become parts, of {_ROWS:,} of ten Avro fields",
            ("telemetry", "rate"),
            limit=300_000,
            wanted=1_000_000,
        ),
        Row(
            "seal/bytes-a-row",
            f"bytes a row of ten fields takes in parts, of {_ROWS:,} as sensors give them",
            ("readings", "bytes_a_row"),
            sense="at most",
            limit=25,
            wanted=12,
        ),
        Row(
            "seal/bytes-a-row-chance",
            "the same of telemetry with a double that is all chance",
            ("telemetry", "bytes_a_row"),
            sense="at most",
            limit=25,
        ),
        Row("seal/readings", "rows of them that become parts a second", ("readings", "rate")),
        Row("seal/bytes", "of 100 bytes that nobody reads", ("bytes", "rate")),
        Row(
            "seal/amplification",
            "bytes written to disk for log and parts, by bytes of payload, as sensors give it",
            ("readings", "written_bytes"),
            ("readings", "payload_bytes"),
            sense="at most",
        ),
        Row(
            "seal/amplification-bytes",
            "the same of bytes that nobody reads",
            ("bytes", "written_bytes"),
            ("bytes", "payload_bytes"),
            sense="at most",
        ),
        Row(
            "seal/amplification-parts",
            "that of parts alone, as sensors give it",
            ("readings", "parts_bytes"),
            ("readings", "payload_bytes"),
            sense="at most",
        ),
        *_beside("a thread", "flat", "flat out"),
        *_beside("a process", "flat", "flat out"),
        *_beside("a thread", "paced", "paced"),
        *_beside("a process", "paced", "paced"),
    ),
    _sealing,
    rounds_max=5,
    bytes_needed=2 * 10**9,
)
