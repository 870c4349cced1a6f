"""What a query has yet to read: of each shard from where the query stands to where the log ends.

What was not there at the query's last offset joins it, as with Kafka's source:

* a shard that was added, or a stream that matches the pattern, with its first record ever: the
  query was there to see it, so that what has expired of it is a loss;
* a stream that is named since, with what there is, as by earliest.

A stream that was read and is not read any more, because it was dropped or nobody subscribes to it,
ends the query unless losses are skipped: it would join from its start if it came again. So does a
shard that is not assigned any more.
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
from streaming_jobs.source.driver.stream_snapshot import (
    ShardName,
    StreamSnapshot,
    check_same_stream,
    read_each,
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
        latest: Where each shard stood in the snapshot.
        gone: What it has read and reads no further.
    """

    since: Mapping[str, StreamOffset]
    ends: Mapping[ShardName, int]
    latest: StreamEnds
    gone: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, options: SourceOptions, last: Mapping[str, StreamOffset], target: StreamEnds | None
    ) -> Self:
        """Return what there is to read, by one snapshot of each stream.

        Args:
            options: What the query was asked for.
            last: Its last offset.
            target: Where a run with an end stops; None for one without.

        Raises:
            InvalidRequestError: A stream is not there, cannot be read as asked, or is not
                subscribed to any more.
            ForeignDataError: A stream or a shard was re-created.
            CorruptionError: A log ends below what was read of it, or a stream was dropped.
        """

        def read(
            reader: StreamReader, snapshot: StreamSnapshot
        ) -> tuple[StreamSnapshot, StreamOffset] | None:
            start = _since(options, last.get(snapshot.place.stream), snapshot, reader, target)
            return None if start is None else (snapshot, start)

        answers = read_each(options, read)
        streams = {stream: one for stream, one in answers.items() if one is not None}
        gone = [f"stream {stream!r}" for stream in _gone(options, last, streams)]
        ends: dict[ShardName, int] = {}
        for stream, (snapshot, start) in streams.items():
            target_ends = snapshot.ends if target is None else target.get(stream, {})
            for shard, begin in start.ends.items():
                if snapshot.ends[shard] < begin and options.fails_on_loss:
                    _refuse_set_back(stream, shard, snapshot.ends[shard], begin)
                ends[stream, shard] = max(begin, target_ends.get(shard, begin))
            left = set() if stream not in last else set(last[stream].ends) - set(start.ends)
            gone += [f"shard {shard} of stream {stream!r}" for shard in sorted(left)]
        latest = {stream: snapshot.ends for stream, (snapshot, _) in streams.items()}
        return cls(
            {stream: start for stream, (_, start) in streams.items()}, ends, latest, tuple(gone)
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
        for dropped in self.gone:
            _LOG.warning("%s is read no further: it was dropped, or is not subscribed to", dropped)
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
    last: StreamOffset | None,
    snapshot: StreamSnapshot,
    reader: StreamReader,
    target: StreamEnds | None,
) -> StreamOffset | None:
    """Return where a query stands in a stream; None in one that joins behind the run's end."""
    stream, incarnation = snapshot.place.stream, snapshot.place.incarnation
    if last is None and target is not None and stream not in target:
        return None
    if last is None and options.subscription.pattern is None:
        edges = resolve(reader, snapshot, Bound(EARLIEST))
        begins = {shard: edge.offset for shard, edge in edges.items()}
        expired = {shard: edge.expired_until for shard, edge in edges.items()}
        return StreamOffset(begins, incarnation, snapshot.lineages, begins, expired)
    last = _assigned(options, last or StreamOffset({}, birth={}), snapshot)
    check_same_stream(last, snapshot)
    target_ends = snapshot.ends if target is None else target.get(stream, {})
    begins = {
        shard: last.ends[shard] if shard in last.ends else reader.born(shard)
        for shard in sorted({*target_ends, *last.ends})
    }
    birth = last.ends if last.birth is None else last.birth
    births = {shard: birth.get(shard, begin) for shard, begin in begins.items()}
    return StreamOffset(begins, incarnation, snapshot.lineages, births, last.expired)


def _assigned(options: SourceOptions, last: StreamOffset, snapshot: StreamSnapshot) -> StreamOffset:
    """Return what is known of the shards that are read, where shards are assigned."""
    left = set() if options.subscription.shards is None else set(last.ends) - set(snapshot.ends)
    if not left:
        return last
    stream = snapshot.place.stream
    if options.fails_on_loss:
        message = (
            f"the query has read shards {sorted(left)}, which are not assigned any more: assign "
            "them again, or let failOnDataLoss=false go on without them"
        )
        raise InvalidRequestError(message, stream=stream)
    return replace(
        last,
        ends={shard: last.ends[shard] for shard in set(last.ends) - left},
        lineages={n: one for n, one in (last.lineages or {}).items() if n in snapshot.lineages},
    )


def _gone(
    options: SourceOptions, last: Mapping[str, StreamOffset], read_now: Mapping[str, object]
) -> tuple[str, ...]:
    """Return streams that were read and are not any more, if they may be skipped."""
    gone = tuple(sorted(set(last) - set(read_now)))
    subscription = options.subscription
    if gone and subscription.pattern is None and len(gone) == len(last):
        message = (
            f"the checkpoint is of {list(gone)}, not of {subscription.label()}; "
            "a query on other streams needs a checkpoint of its own"
        )
        raise InvalidRequestError(message)
    if not gone or not options.fails_on_loss:
        return gone
    stream = gone[0]
    if stream in list_streams(options.path):
        message = (
            f"the query has read the stream, and now reads {subscription.label()}: subscribe to it "
            "again, or let failOnDataLoss=false go on without it; it would start over later"
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
