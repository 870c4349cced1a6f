"""Wide zones: those of a shard that begins from the lake, made of a shard that was trimmed here.

widen(stream)               one zone of each shard stands for all that was trimmed
widen(stream, rows=1000)    some zones, each of about so many rows
small_pieces(monkeypatch)   they are read a few rows at a time
answers(reads, shard)       what a stream answers, whichever way it is asked
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest

from storage_core import ReadRequest, Stream, StreamReader
from storage_core.engine.key_value import Batch
from storage_core.format.joined_zone import spanning
from storage_core.format.keys import zone_key
from storage_core.format.zone import Zone, encode_zone
from storage_core.read.cold import blocks
from storage_core.read.scan import zone_fields
from tests.log.parts.parts_lab import FIRST_MS
from tests.log.readers import scan_one
from tests.log.workbench import rows_of

# By how much the bounds of a wide zone reach over its rows here.
SLACK: Final = 1_000_000


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pieces of wide zones have a few rows, and slices of time too."""
    monkeypatch.setattr(blocks, "_WINDOW_ROWS", 37)
    monkeypatch.setattr(zone_fields, "UNIT_ROWS", 20)


def widen(
    stream: Stream,
    rows: int = 2**40,
    slack: int = SLACK,
    more: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Let few zones stand for all that was trimmed; return how many rows they have.

    Args:
        stream: The stream, open for writing.
        rows: How many rows a zone has, about.
        slack: By how much its bounds reach over them.
        more: What it counts that is not there.
    """
    return sum(_widen(shard, rows, slack, more) for shard in stream._shards.values())


def _widen(shard: Any, rows: int, slack: int, more: Mapping[str, int]) -> int:
    view = shard.snapshots.committed()
    zones = list(view.zones(view.state.start, view.state.trimmed))
    view.close()
    batch = Batch()
    for zone in zones:
        batch.delete(zone_key(zone.first))
    for group in _neighbours(zones, rows):
        batch.put(zone_key(group[0].first), encode_zone(_wide(group, slack, more)))
    shard._store.write(batch)
    return sum(zone.count for zone in zones)


def _neighbours(zones: list[Zone], rows: int) -> Iterator[list[Zone]]:
    group: list[Zone] = []
    for zone in zones:
        is_next = bool(group) and group[-1].end == zone.previous_end
        if group and (not is_next or sum(before.count for before in group) >= rows):
            yield group
            group = []
        group.append(zone)
    if group:
        yield group


def _wide(zones: list[Zone], slack: int, more: Mapping[str, int]) -> Zone:
    zone = spanning(zones)
    bounds: dict[str, Any] = {
        "primary_min": zone.primary_min - slack,
        "primary_max": zone.primary_max + slack,
    }
    if zone.late or zone.ahead:
        bounds["out_of_order_min"] = zone.out_of_order_min - slack
        bounds["out_of_order_max"] = zone.out_of_order_max + slack
    counts: dict[str, Any] = {name: getattr(zone, name) + count for name, count in more.items()}
    return replace(zone, **bounds, **counts)


def answers(reads: Any, shard: int, identity: dict[str, Any]) -> dict[str, Any]:
    """Return what a writer or a reader of rows of a `PartsLab` answers; `identity` is of a few."""
    middle = FIRST_MS + 150_000
    bounds = {"start": middle, "end": middle + 60_000}
    begin, end = 57, reads.committed()[shard] - 31
    return {
        "scan": rows_of(reads.scan()),
        "scan of a time": rows_of(reads.scan(**bounds)),
        "scan of a few": rows_of(reads.scan(**identity)),
        "read": reads.read().to_pylist(),
        "read of a time": reads.read(**bounds).to_pylist(),
        "read of a few": reads.read(**identity, **bounds).to_pylist(),
        "read of some each": reads.read(limit=3).to_pylist(),
        "read of the newest versions": reads.read(latest_by="primary").to_pylist(),
        "tail": rows_of(reads.tail(shard)),
        "tail from an address": rows_of(reads.tail(shard, begin)),
        "tail of some": rows_of(reads.tail(shard, begin, end)),
        "tail of one": rows_of(reads.tail(shard, begin, begin + 1)),
        "tail of a few": rows_of(reads.tail(shard, **identity)),
        "each": _records(reads),
        "each of a time": _records(reads, **bounds),
        "each of a few": _records(reads, **identity, **bounds),
        "latest": sorted(map(str, reads.latest().items())),
        "latest of a few": sorted(map(str, reads.latest(**identity).items())),
        "earliest": reads.earliest(from_=middle),
        "available": _available(reads, middle),
    }


def _available(reads: Any, begin: int) -> tuple[int | None, list[Any]]:
    last, rows = reads.available(from_=begin, width=20_000)
    return last, rows.to_pylist()


def _records(reads: Any, **request: Any) -> list[Any]:
    records: list[Any] = []
    reads.for_each(fn=records.append, **request)
    return records


def newest_within(reader: StreamReader, shard: int, **bounds: Any) -> list[tuple[Any, ...]]:
    """Return the newest row of each id of a shard inside bounds."""
    request = ReadRequest(shard, order="newest", **bounds)
    return sorted(tuple(row.values()) for row in rows_of(scan_one(reader, request)))
