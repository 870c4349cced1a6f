"""Write a golden store of format version 3 whose parts lack fields of their rows.

    python -m tests.golden.write_v3_fields FOLDER

Run with programs that took bare bodies which begin like a frame for framed ones, and gave the
fields `shard` and `value_shard` one column (before parts had digests of what lies outside chunks).
It leaves `FOLDER/v3-fields`, a root with two streams of sealed rows: `bare`, whose blocks are
there, and `meet`, whose blocks were trimmed.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import SchemaEntry, Stream, StreamOptions
from storage_core.fields import AvroSchema, encode_batch

ROWS = 6
NUMBERS: dict[str, dict[str, list[float]]] = {
    # Half a whole number has five bytes of 0 in front.
    "bare": {"level": [number / 2 for number in range(ROWS)]},
    "meet": {
        "shard": [10.1 * (number + 1) for number in range(ROWS)],
        "value_shard": [20.1 * (number + 1) for number in range(ROWS)],
    },
}


def _write(root: Path, name: str) -> None:
    fields = [{"name": field, "type": "double"} for field in NUMBERS[name]]
    schema = AvroSchema.parse(json.dumps({"type": "record", "name": "Level", "fields": fields}))
    bodies = encode_batch(pa.table({**NUMBERS[name]}), schema)
    columns: dict[str, pa.Array[Any]] = {
        "primary": pa.array(range(ROWS), pa.int64()),
        "secondary": pa.array([1] * ROWS, pa.int32()),
        "payload": bodies,
        "schema": pa.array([0] * ROWS, pa.int32()),
    }
    with Stream.create(root, name, StreamOptions(shards=1)) as stream:
        entry = SchemaEntry(7, schema.identity, schema.text)
        stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=[entry])
        stream.commit()
        stream.seal()
        if name == "meet":
            stream.trim(keep_hot=timedelta(0))


if __name__ == "__main__":
    for one in NUMBERS:
        _write(Path(sys.argv[1], "v3-fields"), one)
