"""What a query has yet to read: of each shard from where the query stands to where the log ends.

What was not there at the query's last offset joins it, as with Kafka's source:

* a shard that was added, or a stream that matches the pattern, with its first record ever: the
  query was there to see it, so that what has expired of it is a loss;
* a stream that is named since, with what there is, as by earliest.

A stream that was read and is not read any more, because it was dropped or nobody subscribes to it,
ends the query unless losses are passed by: it would join anew if it came again. So does a shard
that is not assigned any more.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NoReturn, Self

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    LostRangeError,
    StreamReader,
    list_streams,
)
from streaming_jobs.source.driver.bounds import EARLIEST, Bound
from streaming_jobs.source.driver.offsets import StreamOffset
from streaming_jobs.source.driver.resolving import resolve
from streaming_jobs.source.driver.snapshot_reads import (
    ShardName,
    StreamLook,
    ask_each,
    check_same_stream,
)
from streaming_jobs.source.options import SourceOptions

_LOG: Final = logging.getLogger("shardlog")

StreamEnds = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a query has yet to read.

    Attributes:
        since: Where it stands in each stream, and where it began there.
        ends: How far each shard could be read; never less than it was.
        latest: Where each shard stood when it was looked at.
        gone: What it has read and reads no further.
    """

    since: Mapping[str, StreamOffset]
    ends: Mapping[ShardName, int]
    latest: StreamEnds
    gone: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, options: SourceOptions, known: Mapping[str, StreamOffset], target: StreamEnds | None
    ) -> Self:
        """Return what there is to read by one look at each stream.

        Args:
            options: What the query was asked for.
            known: Its last offset.
            target: Where a run with an end stops; None for one without.

        Raises:
            InvalidRequestError: A stream is not there, cannot be read as asked, or is not
                subscribed to any more.
            ForeignDataError: A stream or a shard was made anew.
            CorruptionError: A log ends below what was read of it, or a stream was dropped.
        """

        def ask(reader: StreamReader, seen: StreamLook) -> tuple[StreamLook, StreamOffset] | None:
            since = _since(options, known.get(seen.place.stream), seen, reader, target)
            return None if since is None else (seen, since)

        asked = ask_each(options, ask)
        found = {stream: one for stream, one in asked.items() if one is not None}
        gone = [f"stream {stream!r}" for stream in _gone(options, known, found)]
        ends: dict[ShardName, int] = {}
        for stream, (seen, since) in found.items():
            there = seen.ends if target is None else target.get(stream, {})
            for shard, begin in since.ends.items():
                if seen.ends[shard] < begin and options.fails_on_loss:
                    _refuse_set_back(stream, shard, seen.ends[shard], begin)
                ends[stream, shard] = max(begin, there.get(shard, begin))
            left = set() if stream not in known else set(known[stream].ends) - set(since.ends)
            gone += [f"shard {shard} of stream {stream!r}" for shard in sorted(left)]
        latest = {stream: seen.ends for stream, (seen, _) in found.items()}
        return cls(
            {stream: since for stream, (_, since) in found.items()}, ends, latest, tuple(gone)
        )

    @property
    def begins(self) -> dict[ShardName, int]:
        """Where each shard is read from."""
        return ends_of(self.since)

    @property
    def records(self) -> int:
        """How many offsets there are to read."""
        return sum(self.ends[shard] - begin for shard, begin in self.begins.items())

    def reached(self, ends: Mapping[ShardName, int]) -> dict[str, StreamOffset]:
        """Return the offset of a batch that reads so far, and tell of what it leaves out."""
        for one in self.gone:
            _LOG.warning("%s is read no further: it was dropped, or is not subscribed to", one)
        return {
            stream: StreamOffset(
                {shard: ends[stream, shard] for shard in since.ends},
                *(since.incarnation, since.lineages, since.birth, since.expired),
            )
            for stream, since in self.since.items()
        }


def ends_of(streams: Mapping[str, StreamOffset]) -> dict[ShardName, int]:
    """Return the ends of all streams' shards."""
    return {(stream, n): end for stream, one in streams.items() for n, end in one.ends.items()}


def _since(
    options: SourceOptions,
    known: StreamOffset | None,
    seen: StreamLook,
    reader: StreamReader,
    target: StreamEnds | None,
) -> StreamOffset | None:
    """Return where a query stands in a stream; None in one that joins behind the run's end."""
    stream, incarnation = seen.place.stream, seen.place.incarnation
    if known is None and target is not None and stream not in target:
        return None
    if known is None and options.subscription.pattern is None:
        edges = resolve(reader, seen, Bound(EARLIEST))
        begins = {shard: edge.offset for shard, edge in edges.items()}
        expired = {shard: edge.expired_until for shard, edge in edges.items()}
        return StreamOffset(begins, incarnation, seen.lineages, begins, expired)
    known = _assigned(options, known or StreamOffset({}, birth={}), seen)
    check_same_stream(known, seen)
    there = seen.ends if target is None else target.get(stream, {})
    begins = {
        shard: known.ends[shard] if shard in known.ends else reader.born(shard)
        for shard in sorted({*there, *known.ends})
    }
    birth = known.ends if known.birth is None else known.birth
    births = {shard: birth.get(shard, begin) for shard, begin in begins.items()}
    return StreamOffset(begins, incarnation, seen.lineages, births, known.expired)


def _assigned(options: SourceOptions, known: StreamOffset, seen: StreamLook) -> StreamOffset:
    """Return what is known of the shards that are read, where shards are assigned."""
    left = set() if options.subscription.shards is None else set(known.ends) - set(seen.ends)
    if not left:
        return known
    stream = seen.place.stream
    if options.fails_on_loss:
        message = (
            f"the query has read shards {sorted(left)}, which are not assigned any more: assign "
            "them again, or let failOnDataLoss=false go on without them"
        )
        raise InvalidRequestError(message, stream=stream)
    return replace(
        known,
        ends={shard: known.ends[shard] for shard in set(known.ends) - left},
        lineages={n: one for n, one in (known.lineages or {}).items() if n in seen.lineages},
    )


def _gone(
    options: SourceOptions, known: Mapping[str, StreamOffset], found: Mapping[str, object]
) -> tuple[str, ...]:
    """Return streams that were read and are not any more, if they may be passed by."""
    gone = tuple(sorted(set(known) - set(found)))
    subscription = options.subscription
    if gone and subscription.pattern is None and len(gone) == len(known):
        message = (
            f"the checkpoint tells of {list(gone)}, not of {subscription.shown()}; "
            "a query on other streams needs a checkpoint of its own"
        )
        raise InvalidRequestError(message)
    if not gone or not options.fails_on_loss:
        return gone
    stream = gone[0]
    if stream in list_streams(options.path):
        message = (
            f"the query has read the stream, and now reads {subscription.shown()}: subscribe to it "
            "again, or let failOnDataLoss=false go on without it; it would begin anew later"
        )
        raise InvalidRequestError(message, stream=stream)
    message = (
        "the stream was dropped under the query, which may not have read all of it; "
        "failOnDataLoss=false goes on without it"
    )
    raise LostRangeError(message, stream=stream)


def _refuse_set_back(stream: str, shard: int, end: int, begin: int) -> NoReturn:
    message = (
        "the log ends below what the query has read: the shard was set back; "
        "failOnDataLoss=false waits until it is there again"
    )
    raise CorruptionError(message, stream=stream, shard=shard, start=end, end=begin)
