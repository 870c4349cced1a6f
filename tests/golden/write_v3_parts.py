"""Write a golden store of format version 3 whose first rows are in parts alone.

    python -m tests.golden.write_v3_parts FOLDER NAME

Run once with programs that gave parts no table of chunks (`v3-parts`), once with those that do
(`v3-chunks`), once with those that join zones of trimmed blocks (`v3-joined`, of small commits),
and once with those whose table has blocks too (`v3-blocks`).
It leaves two things in FOLDER, as `write_v3.py` does: a root as a killed process left it, of one
shard with rows of a schema, raw ones and late ones, all of them sealed and trimmed but the last;
and what a reader must find in it.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import SchemaEntry, Stream, StreamOptions
from storage_core.fields import AvroSchema, encode_batch
from storage_core.testing import FaultyDisk, ManualClock
from tests.golden.write_v1 import NOW_MS, STREAM, leave
from tests.golden.write_v3 import told_by

OPTIONS = StreamOptions(shards=1, unit="ms", jitter=5, block_records=4)
SCHEMA = AvroSchema.parse(
    json.dumps(
        {"type": "record", "name": "Level", "fields": [{"name": "level", "type": "int"}]},
    )
)
ENTRY = SchemaEntry(7, SCHEMA.identity, SCHEMA.text)


def _write(root: Path, disk: FaultyDisk, *, is_of_small_commits: bool) -> None:
    """Use a stream as its text above says, up to the crash."""
    environment = disk.environment(ManualClock(wall_ns=NOW_MS * 10**6))
    stream = Stream.create(root, STREAM, OPTIONS, environment=environment)
    for number in range(3):
        stream.append_batch(_batch(NOW_MS + 20 * number, 12), schemas=[ENTRY])
        stream.append(NOW_MS + 20 * number - 15, 1, b"late %d" % number)
        stream.commit()
    if is_of_small_commits:
        for number in range(6):
            stream.append(NOW_MS + 52 + number, number % 3, b"small %d" % number)
            stream.commit()
    stream.seal()
    stream.trim()
    stream.append_batch(_batch(NOW_MS + 60, 4), schemas=[ENTRY])
    stream.commit()


def _batch(first: int, count: int) -> pa.RecordBatch:
    """Return rows of which every third is raw."""
    numbers = range(count)
    bodies = encode_batch(pa.table({"level": pa.array(numbers, pa.int32())}), SCHEMA).to_pylist()
    raw = [b"raw %d" % number for number in numbers]
    columns: dict[str, pa.Array[Any]] = {
        "primary": pa.array([first + number for number in numbers], pa.int64()),
        "secondary": pa.array([number % 3 for number in numbers], pa.int32()),
        "payload": pa.array(
            [raw[at] if at % 3 == 0 else bodies[at] for at in numbers], pa.binary()
        ),
        "schema": pa.array([None if at % 3 == 0 else 0 for at in numbers], pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


if __name__ == "__main__":
    write = partial(_write, is_of_small_commits=sys.argv[2] == "v3-joined")
    leave(Path(sys.argv[1]), sys.argv[2], write, told_by)
