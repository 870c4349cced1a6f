"""Where a subscription begins in a stream, and why it cannot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from storage_core.sql.pool.stream_ranges import Instance, StreamRanges
from typed_events.answer import counted
from typed_events.errors import CommandError, ExpiredEventsError, StaleCheckpointError
from typed_events.subscriptions.checkpoints import Place
from typed_events.subscriptions.proofs import place_at, refuse_stale

# No generation of a shard is above it.
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a subscription begins.

    Attributes:
        places: The place in each shard.
        horizons: Of shards that are read from their start: the generation by which what is not to
            be told has expired.
        instances: For which instance of each shard its place was proved.
    """

    places: dict[int, Place]
    horizons: Mapping[int, int] = field(default_factory=dict)
    instances: Mapping[int, Instance] = field(default_factory=dict)


def begin_at_end(ranges: StreamRanges) -> Begin:
    """Return where a stream ends."""
    ends = ranges.ends()
    instances = {n: ranges.instance(n) for n in ends}
    return Begin({n: place_at(ranges, n, end) for n, end in ends.items()}, {}, instances)


def begin_at(ranges: StreamRanges, places: Mapping[int, Place], *, is_state: bool) -> Begin:
    """Return some places, and where the other shards start.

    Raises:
        CommandError: There is no such place.
        ExpiredEventsError: Events behind it have expired.
        StaleCheckpointError: It is a place in other rows.
    """
    refuse_places(ranges, places, is_state=is_state)
    horizons, instances, begins = {}, {}, {}
    for shard in ranges.ends():
        instances[shard] = ranges.instance(shard)
        place = places.get(shard)
        if place is None:
            start, horizons[shard] = ranges.horizon(shard)
            place = Place(start)
        begins[shard] = place if place.proof else place_at(ranges, shard, place.address)
    return Begin(begins, horizons, instances)


def refuse_places(
    ranges: StreamRanges, places: Mapping[int, Place], *, is_state: bool = False
) -> None:
    """Refuse places that a stream does not have; raises as `begin_at` does."""
    ends = ranges.ends()
    for shard, place in places.items():
        if shard not in ends:
            message = f"{ranges.name} has {counted(len(ends), 'shard')}: there is no shard {shard}"
            raise CommandError(message)
        if place.address > ends[shard]:
            raise behind_end(ranges.name, shard, place, ends[shard])
        refuse_stale(ranges, shard, place)
        # What has gone of state is past its time, and no loss.
        if not is_state and place.address < (start := ranges.start(shard)):
            raise expired_events(ranges.name, shard, place.address, start)


def behind_end(name: str, shard: int, place: Place, end: int) -> StaleCheckpointError:
    """Return the error of a place that is behind the end of a shard."""
    return StaleCheckpointError(
        f"{name}/{shard}:{place.address} lies behind the end, {name}/{shard}:{end}: is the "
        "checkpoint of another store, or of before an older copy was restored? FROM START tells "
        "all that is there"
    )


def expired_events(name: str, shard: int, start: int, end: int) -> ExpiredEventsError:
    """Return the error of events that expired before they were told."""
    message = (
        f"{name}/{shard}:{start} is gone: what is left begins at {name}/{shard}:{end}; FROM "
        f'"{name}/{shard}:{end}" goes on there, FROM START begins with the first event there is'
    )
    return ExpiredEventsError(message, stream=name, shard=shard, start=start, end=end)
