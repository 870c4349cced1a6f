"""Where reading begins or ends, as options say it in Kafka's words.

    startingOffsets, endingOffsets            earliest, latest, or {"<stream>":{"0":n,"1":-2}}
                                              with -2 for earliest and -1 for latest; of several
                                              streams each
    startingTimestamp, endingTimestamp        ms: the first record of that time or later
    …OffsetsByTimestamp                       the same for each shard

A timestamp goes before offsets. A bound is only what was asked; resolving.py finds the offsets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from storage_core import INT64_MAX, InvalidRequestError
from streaming_jobs.common.option_values import (
    OptionValues,
    refuse,
    shortened,
    whole_number,
)
from streaming_jobs.source.driver.subscription import Subscription

Side = Literal["starting", "ending"]
Strategy = Literal["error", "latest"]

EARLIEST: Final = -2
LATEST: Final = -1
_SHAPE: Final = 'earliest, latest or JSON like {"%s":{"0":23,"1":-2}}'
_OFFSET: Final = "an offset is a number from 0, or -1 for latest, -2 for earliest"
_TIMESTAMP: Final = "a timestamp is a number from 0"
_SHAPE_TIME: Final = 'JSON like {"%s":{"0":1700000000000}}'


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is read.

    Attributes:
        everywhere: An offset (or EARLIEST, LATEST), or a timestamp, that holds for all shards;
            None where each has its own.
        by_stream: Those of each stream's shards.
        is_time: Whether they are timestamps in ms and not offsets.
        without_match: What to do where no record is as late as a timestamp.
        identity: The `@` that came with offsets taken from a query.
    """

    everywhere: int | None = None
    by_stream: Mapping[str, Mapping[int, int]] | None = None
    is_time: bool = False
    without_match: Strategy = "error"
    identity: Mapping[str, Any] | None = None

    def tells_of(self, stream: str) -> bool:
        """Tell whether the bound says where it lies in a stream."""
        return self.everywhere is not None or stream in (self.by_stream or {})


@dataclass(frozen=True, slots=True)
class Move:
    """How each task resolves an end of what is read, when it reads.

    Attributes:
        time_ms: The time that no record had reached: the first record that does is the end, and
            as long as there is none, the log's. None for the log's own start or end.
    """

    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of what is read of a shard, as found on the driver.

    Attributes:
        offset: Where it was found.
        move: How tasks resolve it again; None where it stays.
        expired_until: The shard's generation when it was found, where it begins with what was
            there: what had expired by then is no loss. 0 where a given offset begins.
    """

    offset: int
    move: Move | None = None
    expired_until: int = 0


def parse_bound(
    options: OptionValues, side: Side, subscription: Subscription, default: int
) -> Bound:
    """Return the bound that options ask for on one side."""
    strategy: Strategy = "latest"
    if side == "starting":
        name = "startingOffsetsByTimestampStrategy"
        strategy = options.choice(name, ("error", "latest"), "error")
    everywhere = options.whole(f"{side}Timestamp", 0)
    wanted = _SHAPE_TIME % _example(subscription)
    times = options.document(f"{side}OffsetsByTimestamp", dict, wanted)
    offsets = _parse_offsets(options, side, subscription, default)
    if everywhere is not None:
        return Bound(everywhere, is_time=True, without_match=strategy)
    if times is not None:
        name = f"{side}OffsetsByTimestamp"
        shards = _by_stream(name, times, subscription, 0, wanted)
        return Bound(by_stream=shards, is_time=True, without_match=strategy)
    return offsets


def _parse_offsets(
    options: OptionValues, side: Side, subscription: Subscription, default: int
) -> Bound:
    name, wanted = f"{side}Offsets", _SHAPE % _example(subscription)
    text = options.text(name)
    if text is None:
        return Bound(default)
    if text.strip().lower() in ("earliest", "latest"):
        return Bound(EARLIEST if text.strip().lower() == "earliest" else LATEST)
    document = options.document(name, dict, wanted) or {}
    identity = document.pop("@", None)
    if identity is not None and not isinstance(identity, dict):
        refuse(name, text, wanted)
    shards = _by_stream(name, document, subscription, EARLIEST, wanted)
    return Bound(by_stream=shards, identity=identity)


def _example(subscription: Subscription) -> str:
    return subscription.names[0] if subscription.names else "telemetry"


def _by_stream(
    name: str, document: Mapping[str, Any], subscription: Subscription, least: int, wanted: str
) -> dict[str, dict[int, int]]:
    if not all(isinstance(value, dict) for value in document.values()):
        refuse(name, str(document), wanted)
    # Which streams match a pattern is known only where the root is read.
    is_whole = subscription.pattern is not None or set(document) == set(subscription.names)
    if not is_whole or not all(subscription.takes(stream) for stream in document):
        is_one = len(subscription.names) == 1
        has = (
            f"the stream is {subscription.names[0]!r}"
            if is_one
            else f"it reads {subscription.label()}"
        )
        message = f"option {name}: it names {sorted(document)}; {has}"
        raise InvalidRequestError(message)
    return {stream: _by_shard(name, document[stream], least, wanted) for stream in document}


def _by_shard(name: str, document: Mapping[str, Any], least: int, wanted: str) -> dict[int, int]:
    by_shard: dict[int, int] = {}
    for shard, value in document.items():
        number, place = whole_number(shard), whole_number(value)
        if number is None or number < 0:
            refuse(name, f"{shard}: {value}", wanted)
        if place is None or not least <= place <= INT64_MAX:
            rule = _OFFSET if least == EARLIEST else _TIMESTAMP
            value_text = shortened(json.dumps(value))
            message = f"option {name}: shard {number} has {value_text}; {rule}"
            raise InvalidRequestError(message)
        by_shard[number] = place
    return by_shard
