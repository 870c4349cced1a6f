"""Telemetry as sensors give it: ten fields, random as real ones are, no row twice.

A thousand devices tell what they measure about once a second, each at its own moment with some
jitter, in no order. Temperature, humidity and pressure walk by chance and are noisy, and are
rounded to what such sensors resolve; signal strength is noise, the battery falls, a reading in two
hundred is not sound, one in twenty lacks its humidity.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.records import DEVICES, FIRST_PRIMARY
from storage_core import SchemaEntry
from storage_core.avro import AvroSchema, encode_batch, frame_of

_REGISTRY_ID: Final = 8
_STATES: Final = ("OK", "DRIFTING", "FAULT")
_FIRMWARES: Final = ("4.1.0", "4.1.2", "4.2.0-rc1", "4.2.0")
_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "device", "type": "int"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "seq", "type": "long"},
    {"name": "temperature", "type": "double"},
    {"name": "humidity", "type": ["null", "double"], "default": None},
    {"name": "pressure", "type": "double"},
    {"name": "battery", "type": "double"},
    {"name": "rssi", "type": "int"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": list(_STATES)}},
    {"name": "firmware", "type": "string"},
]
_SCHEMA: Final = AvroSchema.parse(
    json.dumps({"type": "record", "name": "Reading", "fields": _FIELDS})
)
ENTRIES: Final = (SchemaEntry(_REGISTRY_ID, _SCHEMA.identity, _SCHEMA.text),)
_SECONDS_A_BATCH: Final = 16
_SECOND_MS: Final = 1000
_JITTER_MS: Final = 40
_untyped: Any = pa
Floats = npt.NDArray[np.float64]


def readings(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches for `append_batch`, so many rows or a few more."""
    chance = np.random.default_rng(11)
    walks = chance.normal(size=(3, DEVICES)) * np.array([[5.0], [15.0], [8.0]])
    phases = chance.integers(0, _SECOND_MS, DEVICES)
    firmwares = chance.integers(0, len(_FIRMWARES), DEVICES)
    for first in range(0, -(-rows // DEVICES), _SECONDS_A_BATCH):
        seconds = np.arange(first, first + _SECONDS_A_BATCH)
        steps = chance.normal(size=(3, _SECONDS_A_BATCH, DEVICES)) * 0.02
        walked = walks[:, None, :] + np.cumsum(steps, axis=1)
        walks = walked[:, -1, :]
        times = FIRST_PRIMARY + seconds[:, None] * _SECOND_MS + phases
        times = times + chance.integers(-_JITTER_MS, _JITTER_MS, times.shape)
        yield _batch(chance, seconds, times, walked, firmwares)


def _batch(
    chance: np.random.Generator,
    seconds: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    walked: Floats,
    firmwares: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    """Return what all devices tell in some seconds, as it comes."""
    # They come nearly in order of time: some are later than others on their way.
    order = np.argsort((times + chance.exponential(200, times.shape)).ravel())
    count = times.size
    devices = np.tile(np.arange(DEVICES, dtype=np.int32), len(seconds))[order]
    noise = chance.normal(size=(3, count)) * np.array([[0.1], [0.4], [0.2]])
    temperature, humidity, pressure = walked.reshape(3, count)[:, order] + noise
    battery = 4.1 - seconds.repeat(DEVICES)[order] * 1e-5 - devices * 1e-4
    state = np.searchsorted([0.995, 0.999], chance.random(count), side="right")
    columns: dict[str, Any] = {
        "device": _untyped.array(devices),
        "at": _untyped.array(times.ravel()[order]),
        "seq": _untyped.array(seconds.repeat(DEVICES)[order]),
        "temperature": _untyped.array(np.round(21 + temperature, 1)),
        "humidity": _untyped.array(np.round(45 + humidity, 1), mask=chance.random(count) < 0.05),
        "pressure": _untyped.array(np.round(1013 + pressure, 1)),
        "battery": _untyped.array(np.round(battery + chance.normal(size=count) * 0.005, 2)),
        "rssi": _untyped.array(chance.integers(-90, -50, count).astype(np.int32)),
        "state": _untyped.array(_STATES).take(_untyped.array(state)),
        "firmware": _untyped.array(_FIRMWARES).take(_untyped.array(firmwares[devices])),
    }
    schema = _SCHEMA.arrow_schema()
    values = _untyped.table([columns[each.name].cast(each.type) for each in schema], schema=schema)
    frame = frame_of(_SCHEMA, _REGISTRY_ID)
    return pa.RecordBatch.from_pydict(
        {
            "primary": times.ravel()[order],
            "secondary": devices,
            "payload": encode_batch(values, _SCHEMA, frame=frame),
            "schema": np.zeros(count, np.int32),
        }
    )
