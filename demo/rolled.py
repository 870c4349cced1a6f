"""The demo's windows: `roll_up` runs while records come, and once more when all are there.

What the first run said of an hour is corrected by the second one, by rows that came since; some of
them late, behind newer ones of their device.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.job import TELEMETRY
from storage_core import State, StreamReader
from storage_core.avro import AvroSchema, body_starts, decode_batch

FIELD: Final = "temperature"
_HOURS: Final = f"{TELEMETRY}-{FIELD}-hour"
_HOUR_MS: Final = 3_600_000

# Of a device the hour that begins at a time.
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rolled:
    """What one run of the job left.

    Attributes:
        ends: How far the shards had come by then, or a little further.
        hours: Of each window how many readings, and their mean.
    """

    ends: dict[int, int]
    hours: dict[Window, tuple[int, float]]


def roll_up(root: Path, place: Path) -> list[str]:
    """Return the job's command."""
    checkpoint = os.fspath(place / "rolled")
    settings = {"--value": FIELD, "--checkpoint": checkpoint, "--master": "local[2]"}
    options = [f"{name}={value}" for name, value in settings.items()]
    return ["streaming_jobs.jobs.roll_up", os.fspath(root), TELEMETRY, *options, "--once"]


def rolled(root: Path) -> Rolled:
    """Read what the job has kept."""
    with StreamReader.open(root, TELEMETRY) as reader:
        ends = reader.committed()
    with StreamReader.open(root, _HOURS) as reader:
        rows = reader.read(latest_by="primary", columns=["secondary", "primary", "payload"])
        (schema,) = reader.schemas()
    bodies: Any = rows.column("payload").combine_chunks()
    decoded = decode_batch(
        bodies,
        AvroSchema.parse(schema.text),
        columns=["count", "sum"],
        starts=body_starts(bodies),
    )
    windows = zip(
        *(rows.column(name).to_pylist() for name in ("secondary", "primary")), strict=True
    )
    records = decoded.table.to_pylist()
    hours = {
        window: (record["count"], record["sum"] / record["count"])
        for window, record in zip(windows, records, strict=True)
    }
    return Rolled(ends, hours)


def corrected(root: Path, before: Rolled, after: Rolled) -> str:
    """Say what late rows have changed of the window that had most of them since."""
    late: Counter[Window] = Counter()
    with StreamReader.open(root, TELEMETRY) as reader:
        for shard, end in reader.committed().items():
            columns = ["secondary", "primary", "state"]
            for batch in reader.tail(shard, before.ends[shard], end, columns=columns):
                for row in batch.to_pylist():
                    window = (row["secondary"], row["primary"] // _HOUR_MS * _HOUR_MS)
                    if row["state"] == State.LATE and window in before.hours:
                        late[window] += 1
    if not late:
        return "no row came late since the first roll-up, so there was nothing to mend"
    window, count = late.most_common(1)[0]
    (old, old_mean), (new, new_mean) = before.hours[window], after.hours[window]
    return (
        f"an hour of device {window[0]} had {old} readings of {old_mean:.3f} degrees as first "
        f"rolled up; {new - old} came since, {count} of them late: it says {new} of {new_mean:.3f}"
    )
