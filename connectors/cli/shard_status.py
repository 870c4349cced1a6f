"""How a shard stands: its figures, what it takes of the disk, and what time its rows span.

None of it costs more where more is stored: counters, markers and the first and the last rows that
arrived say it. So the range of time is that of those rows; an id that is late or ahead of the
others is not looked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connectors.cli.shown import bytes_below
from storage_core import UNITS_PER_SECOND, LostRangeError, State, StreamReader, Unit

# Addresses looked at for a first and a last row. Where they hold none, as behind an aborted
# transaction, four times as many are, so often.
_EDGE_ADDRESSES: Final = 1024
_WIDENINGS_MAX: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """How a shard stands.

    Attributes:
        root: The path of the root.
        root_id: The root's random id, as messages about data that lies elsewhere name it.
        stream: The stream's name.
        shard: The shard's number.
        committed: Exclusive end of what is durable.
        next_offset: Where the source goes on; None where there is no source.
        log_end: The end of the partition in Kafka; None where it is not known.
        lag: Offsets from next_offset to log_end; None where that is not known, or the log is not
            the one that is stored: it ends below, or is set aside as foreign.
        records: Records stored, expired ones apart.
        late: Of those, how many came late.
        ahead: Of those, how many came from the future.
        expired: Rows that were expired when they came.
        dead_letters: Records kept raw, since they could not be stored.
        unsealed: Addresses that are in no part yet.
        bytes: What the shard takes of the disk.
        first: The least primary of the rows that arrived first; None where there are none.
        last: The largest primary of the rows that arrived last, ahead ones apart.
        age_s: How long ago `last` is; None where primaries are no times.
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
    lag: int | None = None
    records: int
    late: int
    ahead: int
    expired: int
    dead_letters: int
    unsealed: int
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
        unit = reader.options.unit
        committed = reader.refresh()
        gaps, lost, unsealed = reader.gaps(), reader.lost_ranges(), reader.unsealed()
        for number, end in committed.items():
            stats = reader.stats(number)
            following = (reader.source(number) or {}).get("next")
            next_offset = following if isinstance(following, int) else None
            last = _primary(reader, number, end, is_first=False)
            yield (
                ShardStatus(
                    root=str(root.absolute()),
                    root_id=root_id,
                    stream=name,
                    shard=number,
                    committed=end,
                    next_offset=next_offset,
                    records=stats.records,
                    late=stats.late_arrivals,
                    ahead=stats.ahead,
                    expired=stats.expired,
                    dead_letters=stats.dead_letters,
                    unsealed=unsealed[number],
                    bytes=bytes_below(root / name / f"shard-{number:04d}"),
                    first=_primary(reader, number, end, is_first=True),
                    last=last,
                    age_s=_age_s(last, unit, now_ns),
                    gaps=gaps[number],
                    lost=lost[number],
                ),
                unit,
            )


def with_log_end(shard: ShardStatus, log_end: int | None, *, is_foreign: bool) -> ShardStatus:
    """Return how a shard stands with the end of its partition, asked for after the shard was.

    An end that was asked for before may lie below what was stored since, as that of a log that
    was cut does.
    """
    reached = shard.committed if shard.next_offset is None else shard.next_offset
    # A log that ends below what is stored was cut or made anew: what is missing nobody knows.
    is_known = log_end is not None and log_end >= reached and not is_foreign
    lag = log_end - reached if is_known and log_end is not None else None
    return replace(shard, log_end=log_end, lag=lag)


def _primary(reader: StreamReader, shard: int, end: int, *, is_first: bool) -> int | None:
    """Return the least primary of the first rows, or the largest of the last."""
    least = reader.start(shard)
    for widened in range(_WIDENINGS_MAX):
        width = _EDGE_ADDRESSES * 4**widened
        begin = least if is_first else max(end - width, least)
        until = min(least + width, end) if is_first else end
        found = _edge(reader, shard, begin, until)
        if found is not None:
            return found[0] if is_first else found[1]
        if begin <= least and until >= end:
            return None
    return None


def _edge(reader: StreamReader, shard: int, start: int, end: int) -> tuple[int, int] | None:
    """Return the least and the largest primary of a range of addresses, without ahead rows."""
    if start >= end:
        return None
    try:
        batches = list(reader.tail(shard, start, end, columns=["primary", "state"]))
    except LostRangeError:
        # It is told by its name; what it held, nobody knows.
        return None
    kept = [
        batch.column("primary").to_numpy()[batch.column("state").to_numpy() != State.AHEAD]
        for batch in batches
    ]
    bounds = [(int(part.min()), int(part.max())) for part in kept if len(part)]
    if not bounds:
        return None
    return min(least for least, _ in bounds), max(largest for _, largest in bounds)


def _age_s(primary: int | None, unit: Unit, now_ns: int) -> float | None:
    if primary is None or unit not in UNITS_PER_SECOND:
        return None
    return round(now_ns / 10**9 - primary / UNITS_PER_SECOND[unit], 3)
