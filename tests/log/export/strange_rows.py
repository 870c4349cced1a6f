"""Rows that no usual program writes, and files that are not as they were: for random tests.

append_strange(lab, rng)      payloads that are frames alone, or none; values of schemas without a
                              name or fields; all that stands beside a value, at its ends
damaged(rng, directory)       one file of an export cut, changed in a bit, or gone; and the way back
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storage_core import HEADERS_TYPE, SchemaEntry
from storage_core.avro import AvroSchema, frame_of
from tests.log.parts.parts_lab import FIRST_MS, PartsLab, schema_of

_TEXT = AvroSchema.parse('"string"')
_EMPTY = schema_of([], "Empty")
_ITSELF: list[dict[str, Any]] = [
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["P", "Q"]}},
    {"name": "next", "type": ["null", "Tree"], "default": None},
    {"name": "value", "type": "bytes"},
    {"name": "address", "type": "int"},
]
_TREE = AvroSchema.parse(
    json.dumps({"type": "record", "name": "Tree", "namespace": "a.b", "fields": _ITSELF})
)
_ENTRIES = tuple(
    SchemaEntry(50 + number, schema.identity, schema.text)
    for number, schema in enumerate((_TEXT, _EMPTY, _TREE))
)
_PAYLOADS: tuple[tuple[bytes | None, int | None], ...] = (
    (b"", None),
    (None, None),
    (b"\x00", None),
    (b"\xc3\x01", None),
    ("line\r\n\x85\u2028\"'".encode(), None),
    (frame_of(_TEXT, 50) + b"\x04hi", 0),
    (frame_of(_EMPTY, 51), 1),
    (b"", 1),
    (frame_of(_EMPTY, None), 1),
    (frame_of(_TREE, 52) + b"\x02\x02\x00\x00\x02a\x04\x02z\x06", 2),
    (frame_of(_TREE, 52) + b"\x02", 2),
    (None, 2),
)
_KEYS = (None, b"", b"\xff", b"text")
_HEADERS: tuple[Any, ...] = (
    None,
    [],
    [{"key": "é", "value": None}, {"key": "é", "value": b"\xfe"}],
    [{"key": "__value_schema_id", "value": b"\x01x"}],
)
_FAR_MS = 10**13


def _choice(rng: np.random.Generator, among: tuple[Any, ...], count: int) -> list[Any]:
    return [among[at] for at in rng.integers(0, len(among), count)]


def append_strange(lab: PartsLab, rng: np.random.Generator) -> None:
    """Append and commit some rows; before them a shard may pass over some addresses."""
    count = int(rng.integers(1, 15))
    shard = int(rng.integers(0, 2))
    lab.stream.skip(shard, lab.stream.commit()[shard] + int(rng.integers(0, 4)))
    times = FIRST_MS + rng.integers(-(10**6), 10**6, count) + (rng.random(count) < 0.1) * _FAR_MS
    chosen = _choice(rng, _PAYLOADS, count)
    columns: dict[str, Any] = {
        "primary": pa.array(times),
        "payload": pa.array([payload for payload, _ in chosen], pa.binary()),
        "schema": pa.array([schema for _, schema in chosen], pa.int32()),
        "headers": pa.array(_choice(rng, _HEADERS, count), HEADERS_TYPE),
        "version": pa.array(_choice(rng, (0, 65_535), count), pa.uint16()),
        "key": pa.array(_choice(rng, _KEYS, count), pa.binary()),
        "timestamp_type": pa.array(_choice(rng, (None, 0, 1), count), pa.int8()),
    }
    if not lab.has_keys:
        columns["secondary"] = pa.array(_choice(rng, (-(2**31), -1, 5), count), pa.int32())
    lab.stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=_ENTRIES)
    lab.stream.commit()


@contextmanager
def damaged(rng: np.random.Generator, directory: Path) -> Iterator[Path]:
    """Damage one file of an export, and put it back as it was."""
    files = sorted(path for path in directory.iterdir() if path.name != "manifest.json")
    file = files[rng.integers(0, len(files))]
    data = file.read_bytes()
    place = int(rng.integers(0, len(data)))
    flipped = bytes([data[place] ^ 1 << int(rng.integers(0, 8))])
    match rng.integers(0, 3):
        case 0:
            file.unlink()
        case 1:
            file.write_bytes(data[:place])
        case _:
            file.write_bytes(data[:place] + flipped + data[place + 1 :])
    yield file
    file.write_bytes(data)
