"""What `GET /status` tells of a stream, at a cost that grows with its files and not with its rows.

Counters, markers and lists of parts say all of it but two things. The newest time is sought among
the last thousand rows of a shard. What a stream takes on the disk is counted file by file, so it is
counted again after ten seconds at the earliest, and so is all that is told of a stream in which
nothing was committed meanwhile.

Of hundreds of streams one answer reads what it has time for, those first that were not read for
longest. The others are told as they were, with `age_s`; with `pending` before they were ever read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from connectors.monitoring.lake_figures import lake_figures
from connectors.monitoring.shard_edges import edge_of
from connectors.serve.open_streams import OpenStreams
from storage_core import (
    UNITS_PER_SECOND,
    Clock,
    ShardlogError,
    StreamReader,
    Unit,
    describe_stream,
    shard_progress,
)
from storage_core.platform.disk_usage import disk_bytes

# What a client tells of itself in headers: of the server's own reads nothing.
_OWN_READ: Final[Mapping[str, str]] = {}
_COUNTED_EVERY_S: Final = 10.0
# What is read for one answer: some streams in any case, and others while there is time.
READ_AT_LEAST: Final = 16
_READ_MAX_S: Final = 1.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of a stream, and when.

    Attributes:
        mark: How far its shards had come.
        at_s: When it was read.
        values: What is told of it.
        bytes_at_s: When its bytes were counted.
    """

    mark: object
    at_s: float
    values: Mapping[str, Any]
    bytes_at_s: float


class StreamStatuses:
    """What is told of each stream of a root. Belongs to one thread at a time."""

    def __init__(self, root: Path, streams: OpenStreams, clock: Clock) -> None:
        """Have read nothing yet."""
        self._root = root
        self._streams = streams
        self._clock = clock
        self._readings: dict[str, _Reading] = {}
        # What was answered last of each stream, and when.
        self._answered: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def all_of(self, names: list[str]) -> list[Mapping[str, Any]]:
        """Return what is told of some streams, in their order."""
        began_s = self._clock.monotonic_s()
        for name in self._answered.keys() - set(names):
            del self._answered[name]
            self._readings.pop(name, None)
        entries: dict[str, Mapping[str, Any]] = {}
        never: tuple[float, Mapping[str, Any]] = (float("-inf"), {})
        by_age = sorted(names, key=lambda name: self._answered.get(name, never)[0])
        for place, name in enumerate(by_age):
            now_s = self._clock.monotonic_s()
            if place < READ_AT_LEAST or now_s - began_s < _READ_MAX_S:
                entries[name] = self.of(name)
                self._answered[name] = (now_s, entries[name])
            elif name in self._answered:
                then_s, values = self._answered[name]
                entries[name] = {**values, "age_s": round(now_s - then_s, 1)}
            else:
                entries[name] = {"name": name, "pending": True}
        return [entries[name] for name in names]

    def of(self, name: str) -> Mapping[str, Any]:
        """Return what is told of a stream; what is wrong where it cannot be read."""
        try:
            return self._current(name).values
        except ShardlogError as error:
            self._readings.pop(name, None)
            return {"name": name, "error": str(error)}

    def _current(self, name: str) -> _Reading:
        now_s = self._clock.monotonic_s()
        description = describe_stream(self._root, name)
        progress = shard_progress(self._root, name)
        mark = (
            description.incarnation,
            {shard: (each.committed, each.committed_at_ms) for shard, each in progress.items()},
        )
        last = self._readings.get(name)
        if last is not None and last.mark == mark and now_s - last.at_s < _COUNTED_EVERY_S:
            return last
        with self._streams.using(name, None, _OWN_READ, anew=True) as reader:
            values = _values_of(name, reader)
            values["lake"] = self._lake_of(name, reader)
        if last is None or now_s - last.bytes_at_s >= _COUNTED_EVERY_S:
            values["bytes"] = sum(map(disk_bytes, description.directories.values()))
            bytes_at_s = now_s
        else:
            values["bytes"], bytes_at_s = last.values["bytes"], last.bytes_at_s
        reading = self._readings[name] = _Reading(mark, now_s, values, bytes_at_s)
        return reading

    def _lake_of(self, name: str, reader: StreamReader) -> Mapping[str, Any] | None:
        """Return how far a stream was published; None of one that no worker publishes."""
        figures = lake_figures(self._root, name, reader, self._clock.now_ns())
        if not figures:
            return None
        return {
            "uri": reader.options.lake,
            "published": {str(shard): each.published for shard, each in figures.items()},
            "unpublished": sum(each.unpublished for each in figures.values()),
            "unpublished_age_s": max(each.age_s for each in figures.values()),
        }


def _values_of(name: str, reader: StreamReader) -> dict[str, Any]:
    committed = reader.refresh()
    stats, parts = reader.stats(), reader.parts()
    edges = (edge_of(reader, shard, end, is_first=False) for shard, end in committed.items())
    newest = max((edge.newest for edge in edges if edge is not None), default=None)
    return {
        "name": name,
        "kind": "log" if reader.origin is None else reader.origin.kind,
        "shards": len(committed),
        "committed": {str(shard): end for shard, end in committed.items()},
        "rows": stats.records,
        "hot_rows": sum(reader.unsealed().values()),
        "parts": {
            "count": len(parts),
            "rows": sum(part.entry.rows for part in parts),
            "bytes": sum(part.entry.size for part in parts),
        },
        "late": stats.late_arrivals,
        "expired": stats.expired,
        "lag": None,
        "newest": _moment(newest, reader.options.unit),
    }


def _moment(primary: int | None, unit: Unit) -> str | None:
    """Return a primary as a time; None where it is none, or one that no calendar has."""
    if primary is None or unit not in UNITS_PER_SECOND:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=primary * _MICROSECONDS // UNITS_PER_SECOND[unit])
    except OverflowError:
        return None
    return moment.isoformat().replace("+00:00", "Z")
