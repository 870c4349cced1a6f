"""Avro bodies into Arrow columns, against fastavro's reader in a loop."""

import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row
from storage_core.avro import AvroSchema, decode_batch

_ROWS: Final = 1_000_000
MEASURED: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Measured",
    "fields": [
        {"name": "device", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "sequence", "type": "long"},
        {"name": "value", "type": "double"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "name", "type": "string"},
        {"name": "valid", "type": "boolean"},
        {"name": "low", "type": ["null", "double"]},
        {"name": "note", "type": ["null", "string"]},
        {"name": "count", "type": "int"},
    ],
}
_TWO: Final = ("device", "at")
_ALL: Final = tuple(str(each["name"]) for each in MEASURED["fields"])
_untyped: Any = pa


@contextmanager
def _avro(_workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    bodies = _bodies()
    array = pa.array(bodies, pa.binary())
    ours = AvroSchema.parse(json.dumps(MEASURED))
    theirs = fastavro.parse_schema(MEASURED)
    schema = ours.arrow_schema()

    def decoded(columns: Sequence[str]) -> Measured:
        start = time.perf_counter()
        decoded = decode_batch(array, ours, columns=columns)
        seconds = time.perf_counter() - start
        assert not decoded.faults
        assert decoded.table.num_rows == _ROWS
        return {"rate": _ROWS / seconds}

    def looped(columns: Sequence[str]) -> Measured:
        read = fastavro.schemaless_reader
        start = time.perf_counter()
        values: list[list[Any]] = [[] for _ in columns]
        for body in bodies:
            record: Any = read(io.BytesIO(body), theirs, None)
            for name, column in zip(columns, values, strict=True):
                column.append(record[name])
        arrays = [
            _untyped.array(column, schema.field(name).type)
            for name, column in zip(columns, values, strict=True)
        ]
        table = _untyped.Table.from_arrays(arrays, names=list(columns))
        seconds = time.perf_counter() - start
        assert table.equals(decode_batch(array, ours, columns=columns).table)
        return {"rate": _ROWS / seconds}

    yield {
        "two": lambda: decoded(_TWO),
        "two looped": lambda: looped(_TWO),
        "all": lambda: decoded(_ALL),
        "all looped": lambda: looped(_ALL),
    }


def _bodies() -> list[bytes]:
    devices = np.random.default_rng(1).integers(0, 1000, _ROWS).tolist()
    parsed = fastavro.parse_schema(MEASURED)
    bodies = []
    for number, device in enumerate(devices):
        file = io.BytesIO()
        record = {
            "device": device,
            "at": 1_700_000_000_000 + number,
            "sequence": number,
            "value": number * 0.5,
            "kind": "ABC"[number % 3],
            "name": f"device-{device}",
            "valid": number % 2 == 0,
            "low": None if number % 3 else 1.5,
            "note": None if number % 4 else "a note",
            "count": number % 100,
        }
        fastavro.schemaless_writer(file, parsed, record)
        bodies.append(file.getvalue())
    return bodies


AVRO: Final = Experiment(
    "avro",
    (
        Row(
            "avro/two",
            "2 of 10 fields of 1 M Avro bodies into Arrow, against fastavro in a loop",
            ("two", "rate"),
            ("two looped", "rate"),
            limit=3.0,
            wanted=15.0,
        ),
        Row(
            "avro/all",
            "all 10 of them",
            ("all", "rate"),
            ("all looped", "rate"),
        ),
    ),
    _avro,
)
