"""The state of a shard: its figures, its size on disk, and the time its rows span.

None of it costs more where more is stored: it reads counters, markers and the rows that arrived
first and last. So the newest row is sought among the last thousand addresses; one further back is
not found.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.cli.log_ends import LogEnds
from connectors.group.pauses import Pause
from connectors.group.quarantine_notes import QuarantineNote
from connectors.monitoring.lake_figures import LakeFigures, lake_figures
from connectors.monitoring.shard_edges import edge_of
from storage_core import UNITS_PER_SECOND, StreamReader, Unit, describe_stream
from storage_core.platform.disk_usage import disk_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """The state of a shard, as `shardlog status` prints it.

    Attributes:
        root: The path of the root.
        root_id: The root's random id, as messages about data that lies elsewhere name it.
        stream: The stream's name.
        shard: The shard's number.
        committed: Exclusive end of what is durable.
        next_offset: Where the source goes on; None where there is no source.
        log_end: The end of the partition in Kafka; None where it is not known.
        last_stable_offset: Where its first open transaction begins, or the end if none is open; no
            reader of what is committed goes beyond.
        held_back: Offsets from there to the end.
        lag: Offsets from next_offset to log_end; None where that is not known.
        lag_unknown: Why that is not known, though brokers were named.
        quarantined: Its fault, where a worker has quarantined it: kind, reason, since_ms.
        paused: Its pause, where an operator has paused it: reason, since_ms.
        records: Records stored, expired ones apart.
        late: Of those, how many came late.
        ahead: Of those, how many came from the future.
        expired: Rows that had expired when they arrived.
        dead_letters_waiting: Records that could not become rows, and are kept raw.
        dead_letters_forwarded: Such records that were published to a topic.
        dead_letters_dropped: Such records that were deleted, since a shard had too many of them.
        dead_letters_retried: Such records that were retried and are rows now.
        dead_letters_discarded: Such records that an operator discarded.
        unsealed: Addresses that are in no part yet.
        published: Below it the lake has its rows, by the note of a worker; None without one.
        unpublished: Committed addresses that the lake does not have.
        unpublished_age_s: How long ago the first of them was committed.
        bytes: Its size on disk.
        first: The primary of the row that arrived first of those kept; None where there are none.
        last: The primary of the row that arrived last. Neither is of a row ahead of the clock.
        age_s: How long ago the largest primary of the last thousand rows is; None where primaries
            are no times.
        gaps: Ranges of addresses that the source no longer had.
        lost: Ranges of addresses that were acknowledged and are gone.
    """

    root: str
    root_id: str
    stream: str
    shard: int
    committed: int
    next_offset: int | None
    log_end: int | None = None
    last_stable_offset: int | None = None
    held_back: int = 0
    lag: int | None = None
    lag_unknown: str | None = None
    quarantined: dict[str, str | int] | None = None
    paused: dict[str, str | int] | None = None
    records: int
    late: int
    ahead: int
    expired: int
    dead_letters_waiting: int
    dead_letters_forwarded: int
    dead_letters_dropped: int
    dead_letters_retried: int
    dead_letters_discarded: int
    unsealed: int
    published: int | None = None
    unpublished: int | None = None
    unpublished_age_s: float | None = None
    bytes: int
    first: int | None
    last: int | None
    age_s: float | None
    gaps: list[tuple[int, int]]
    lost: list[tuple[int, int]]


def shard_statuses(
    root: Path, root_id: str, name: str, now_ns: int
) -> Iterator[tuple[ShardStatus, Unit]]:
    """Yield each shard of a stream, without what Kafka says, with the unit of its primaries.

    Args:
        root: The root's path.
        root_id: The root's random id.
        name: The stream.
        now_ns: The wall time.

    Raises:
        ShardlogError: The stream cannot be read.
    """
    with StreamReader.open(root, name) as reader:
        directories = describe_stream(root, name).directories
        yield from statuses_of(
            reader,
            ShardPlaces(str(root.absolute()), root_id, name),
            lambda: {number: disk_bytes(path) for number, path in directories.items()},
            now_ns,
            lambda: lake_figures(root, name, reader, now_ns),
        )


@dataclass(frozen=True, slots=True)
class ShardPlaces:
    """Where shards lie: their root, its id, and the stream."""

    root: str
    root_id: str
    stream: str


def statuses_of(
    reader: StreamReader,
    places: ShardPlaces,
    sizes: Callable[[], Mapping[int, int]],
    now_ns: int,
    lakes: Callable[[], Mapping[int, LakeFigures]] = dict,
) -> Iterator[tuple[ShardStatus, Unit]]:
    """Yield each shard that a reader has, from wherever it reads.

    Args:
        reader: The stream's.
        places: Where its shards lie.
        sizes: Returns the bytes that each takes on the disk there.
        now_ns: The wall time.
        lakes: Returns how far each was published, as far as that is known there.

    Raises:
        ShardlogError: The stream cannot be read.
    """
    unit = reader.options.unit
    committed = reader.refresh()
    on_disk = sizes()
    gaps, lost, unsealed = reader.gaps(), reader.lost_ranges(), reader.unsealed()
    of_lakes = lakes()
    for number, end in committed.items():
        stats = reader.stats(number)
        following = (reader.source(number) or {}).get("next")
        next_offset = following if isinstance(following, int) else None
        first = edge_of(reader, number, end, is_first=True)
        last = edge_of(reader, number, end, is_first=False)
        newest = None if last is None else last.newest
        lake = of_lakes.get(number)
        yield (
            ShardStatus(
                root=places.root,
                root_id=places.root_id,
                stream=places.stream,
                shard=number,
                committed=end,
                next_offset=next_offset,
                records=stats.records,
                late=stats.late_arrivals,
                ahead=stats.ahead,
                expired=stats.expired,
                dead_letters_waiting=stats.dead_letters_waiting,
                dead_letters_forwarded=stats.dead_letters_forwarded,
                dead_letters_dropped=stats.dead_letters_dropped,
                dead_letters_retried=stats.dead_letters_retried,
                dead_letters_discarded=stats.dead_letters_discarded,
                unsealed=unsealed[number],
                published=None if lake is None else lake.published,
                unpublished=None if lake is None else lake.unpublished,
                unpublished_age_s=None if lake is None else lake.age_s,
                bytes=on_disk.get(number, 0),
                first=None if first is None else first.first,
                last=None if last is None else last.last,
                age_s=_age_s(newest, unit, now_ns),
                gaps=gaps[number],
                lost=lost[number],
            ),
            unit,
        )


def with_log_end(
    shard: ShardStatus, ends: LogEnds, note: QuarantineNote | None, pause: Pause | None = None
) -> ShardStatus:
    """Return the state of a shard with the end of its partition, fetched after the shard was read.

    An end that was fetched before may lie below what was stored since, and look like a cut log.

    Args:
        shard: The state without it.
        ends: What Kafka says.
        note: Its fault, or that of all of its topic.
        pause: Its pause, or that of all of its stream.
    """
    end, stable = ends.ends.get(shard.shard), ends.stable.get(shard.shard)
    reached = shard.committed if shard.next_offset is None else shard.next_offset
    lag, unknown = lag_of(reached, end, ends, note)
    return replace(
        shard,
        log_end=end,
        last_stable_offset=stable,
        held_back=0 if end is None or stable is None else max(end - stable, 0),
        lag=lag,
        lag_unknown=unknown,
        quarantined=None if note is None else note.facts(),
        paused=None if pause is None else pause.facts(),
    )


def lag_of(
    reached: int, end: int | None, ends: LogEnds, note: QuarantineNote | None
) -> tuple[int | None, str | None]:
    """Return how far a shard is behind its partition, or why that is not known.

    Args:
        reached: Up to where it is stored.
        end: The end of the partition's log.
        ends: What Kafka says of the topic.
        note: Its fault, or that of all of its topic.
    """
    unknown = ends.unknown
    if note is not None and note.kind == "foreign":
        unknown = unknown or note.reason
    elif end is not None and end < reached:
        # Cut or created again: nobody knows what is missing.
        unknown = unknown or f"the log ends at {end}, below {reached}, up to which it is stored"
    is_known = end is not None and unknown is None
    return (end - reached if is_known and end is not None else None), unknown


def _age_s(primary: int | None, unit: Unit, now_ns: int) -> float | None:
    if primary is None or unit not in UNITS_PER_SECOND:
        return None
    return round(now_ns / 10**9 - primary / UNITS_PER_SECOND[unit], 3)
