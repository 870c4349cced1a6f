"""The lab of `roll_up`: a stream of readings, the job over it, and what plain Python makes of all.

    lab.create(); lab.measure(readings)     the writer's side; values are of two schemas by turns
    lab.roll_up(max_rows=100)               the job over what is there, to its end
    lab.stored("day")                         what its streams tell, by id and what clocks show
    lab.expected("day")                     the same from all readings at once, by zoneinfo alone

Values are whole numbers, so that sums are exact in whatever order.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from storage_core import SchemaEntry, Stream, StreamOptions, StreamOrigin, StreamReader
from storage_core.avro import AvroSchema, body_starts, decode_batch, encode_batch, frame_of
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_store
from storage_core.format.shard_state import encode_range_end, lost_key
from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.rollup.calendar import LEVELS, Level

NAME: Final = "readings"
FIELD: Final = "temperature"
QUERY_SECONDS_MAX: Final = 600
_DOUBLE: Final = (
    '{"type":"record","name":"Reading","fields":[{"name":"temperature","type":"double"}]}'
)
_OTHER: Final = (
    '{"type":"record","name":"Reading","fields":[{"name":"place","type":"string"},'
    '{"name":"temperature","type":["null","int"]}]}'
)
# Midnights, ends of months and of a year, and both changes of clocks in Berlin and in New York.
DATES: Final = ("2025-03-09", "2025-03-30", "2025-04-01", "2025-10-26", "2025-11-02", "2026-01-01")
_CLOCKS: Final[dict[str, str]] = {
    "hour": "%Y-%m-%dT%H%z",
    "day": "%Y-%m-%d",
    "month": "%Y-%m",
    "year": "%Y",
}
_MEASURES: Final = (
    *("count", "sum", "sum_sq", "min", "min_time", "max", "max_time"),
    *("first", "first_time", "last", "last_time"),
)

# Whose, when in milliseconds, and what.
Reading = tuple[Any, int, int]


def readings(
    draw: random.Random, count: int, ids: Sequence[Any] = tuple(range(9))
) -> list[Reading]:
    """Return readings of some days around each of `DATES`, in order of time but for late ones."""
    timed: list[tuple[float, Reading]] = []
    for _ in range(count):
        day = datetime.fromisoformat(draw.choice(DATES)).replace(tzinfo=UTC)
        time = day + timedelta(milliseconds=draw.randrange(-36 * 3_600_000, 36 * 3_600_000, 60_000))
        late_hours = draw.choice((0, 0, 0, 0.2, 5, 2000))
        reading = (draw.choice(ids), int(time.timestamp() * 1000), draw.randint(-40, 40))
        timed.append((time.timestamp() + late_hours * 3600, reading))
    return [reading for _, reading in sorted(timed, key=lambda one: one[0])]


class RollupLab:
    """A stream of readings in a place, and the job over it."""

    def __init__(self, place: Path, zone: str = "Europe/Berlin") -> None:
        self.place = place
        self.root = place / "root"
        self.zone = zone
        self.readings: list[Reading] = []
        self.has_keys = False
        self.writer: Stream | None = None

    # --- the writer's side -------------------------------------------------------------------

    def create(self, **options: Any) -> None:
        self.has_keys = options.get("key_mode") == "dictionary"
        self.writer = Stream.create(self.root, NAME, StreamOptions(**{"shards": 2, **options}))

    def create_topic(self) -> None:
        """Make the stream of a topic whose values say whose they are; its keys say nothing."""
        origin = StreamOrigin(
            "kafka", NAME, "id", "none", "timestamp", "avro", secondary="field:device"
        )
        Stream.create(self.root, NAME, origin=origin).close()
        Stream.add_shards(self.root, NAME, {0: 0, 1: 0})
        self.writer = Stream.open(self.root, NAME)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def measure(self, measurements: Sequence[Reading]) -> None:
        """Append readings, durably."""
        assert self.writer is not None
        ids, times, values = (list(column) for column in zip(*measurements, strict=True))
        whose: Any = ("key", pa.binary()) if self.has_keys else ("secondary", pa.int32())
        numbers = [place % 2 for place in range(len(measurements))]
        written = [_written(schema, values) for schema in _schemas()]
        batch = pa.RecordBatch.from_pydict(
            {
                "primary": pa.array(times, pa.int64()),
                whose[0]: pa.array(ids, whose[1]),
                "payload": pa.array(
                    [written[number][at] for at, number in enumerate(numbers)], pa.binary()
                ),
                "schema": pa.array(numbers, pa.int32()),
            }
        )
        entries = [SchemaEntry(0, one.identity, one.text) for one in _schemas()]
        if self.writer.origin is None:
            self.writer.append_batch(batch, schemas=entries)
        else:
            for shard in (0, 1):
                rows = batch.take(pa.array(range(shard, len(ids), 2)))
                first = self.writer.committed()[shard]
                addresses = np.arange(first, first + len(rows))
                self.writer.append_batch(rows, shard=shard, addresses=addresses, schemas=entries)
        self.writer.commit()
        self.readings += measurements

    def lose(self, start: int, end: int) -> None:
        """Let rows of shard 0 be lost, as an opening after damage writes it down."""
        self.close()
        store = open_store(self.root / NAME / "shard-0000" / "db", "strict")
        batch = Batch()
        batch.put(lost_key(start), encode_range_end(end, "gone"))
        store.write(batch)
        store.sync()
        store.close()
        self.writer = Stream.open(self.root, NAME)

    # --- the job ---------------------------------------------------------------------------------

    def roll_up(self, spark: SparkSession, checkpoint: str = "checkpoint", **options: Any) -> None:
        """Run the job over what is there to its end."""
        root = options.pop("root", self.root)
        arguments = {"zone": self.zone, "checkpoint": self.place / checkpoint, "once": True}
        query = roll_up(spark, root, NAME, **{"value": FIELD, **arguments, **options})
        assert query.awaitTermination(QUERY_SECONDS_MAX), "the query goes on"

    # --- what came of it -------------------------------------------------------------------------

    def stored(self, level: Level, by: Any = "primary") -> dict[tuple[Any, str], dict[str, Any]]:
        """Return what a level's stream tells, by id and what clocks show as the window."""
        with StreamReader.open(self.root, f"{NAME}-{FIELD}-{level}") as reader:
            rows = reader.read(latest_by=by)
            (entry,) = reader.schemas()
        schema = AvroSchema.parse(entry.text)
        bodies: Any = rows.column("payload").combine_chunks()
        decoded = decode_batch(bodies, schema, starts=body_starts(bodies))
        assert not decoded.faults
        records = decoded.table.to_pylist()
        whose = rows.column("key" if self.has_keys else "secondary").to_pylist()
        assert whose == [record["id_key" if self.has_keys else "id"] for record in records]
        return self.by_window(level, records)

    def by_window(
        self, level: Level, records: Sequence[dict[str, Any]]
    ) -> dict[tuple[Any, str], dict[str, Any]]:
        """Return what records tell, by id and what clocks show as the window."""
        windows = {}
        for record in records:
            labels = (record["level"], record["zone"], record["measure"])
            assert labels == (level, self.zone, FIELD)
            start = int(record["window_start"].timestamp() * 1000)
            window = (record["id_key" if self.has_keys else "id"], self.label(level, start))
            assert window not in windows
            windows[window] = {name: _plain(record[name]) for name in _MEASURES}
        return windows

    def expected(self, level: Level) -> dict[tuple[Any, str], dict[str, Any]]:
        """Return what plain Python makes of all readings."""
        windows: dict[tuple[Any, str], list[tuple[int, int, int]]] = defaultdict(list)
        for place, (whose, time, value) in enumerate(self.readings):
            windows[whose, self.label(level, time)].append((time, place, value))
        return {window: _rolled_up(sorted(inside)) for window, inside in windows.items()}

    def label(self, level: Level, time: int) -> str:
        """Return what clocks show of a window in which a time lies."""
        return datetime.fromtimestamp(time / 1000, ZoneInfo(self.zone)).strftime(_CLOCKS[level])

    def check(self, levels: Sequence[Level] = LEVELS) -> None:
        """Expect of each level what plain Python makes of all readings."""
        for level in levels:
            assert self.stored(level) == self.expected(level), level


def _rolled_up(inside: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    values = [value for _, _, value in inside]
    least = min(inside, key=lambda one: (one[2], one[0]))
    most = min(inside, key=lambda one: (-one[2], one[0]))
    return {
        "count": len(values),
        "sum": sum(values),
        "sum_sq": sum(value**2 for value in values),
        "min": least[2],
        "min_time": least[0],
        "max": most[2],
        "max_time": most[0],
        "first": inside[0][2],
        "first_time": inside[0][0],
        "last": inside[-1][2],
        "last_time": inside[-1][0],
    }


def _schemas() -> list[AvroSchema]:
    return [AvroSchema.parse(text) for text in (_DOUBLE, _OTHER)]


def _written(schema: AvroSchema, values: Sequence[int]) -> list[Any]:
    types = schema.arrow_schema()
    # Only the other schema has values that are missing.
    present = values if "place" in types.names else [one or 0 for one in values]
    column: Any = pa.array(present, pa.int32())
    columns: dict[str, Any] = {FIELD: column.cast(types.field(FIELD).type)}
    if "place" in types.names:
        columns["place"] = pa.array(["here"] * len(values))
    frame = frame_of(schema, None)
    return encode_batch(pa.table(columns), schema, frame=frame).to_pylist()


def _plain(value: Any) -> Any:
    return int(value.timestamp() * 1000) if isinstance(value, datetime) else value
