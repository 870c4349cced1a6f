"""The options of the source, by Kafka's names where Kafka has one; read on the driver.

Everything is checked here before a job starts. What depends on the stream itself (its shards,
whether its ids are integers) is checked against it in stream_snapshot.py.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from storage_core import INT64_MAX, INT64_MIN, InvalidRequestError
from storage_core.platform.name_suggestions import did_you_mean
from streaming_jobs.common.option_values import (
    ENDING,
    FIELD_OPTIONS,
    LIMITS,
    SOURCE_OPTIONS,
    STARTING,
    OptionValues,
    refuse,
    whole_number,
)
from streaming_jobs.source.driver.bounds import EARLIEST, LATEST, Bound, parse_bound
from streaming_jobs.source.driver.offsets import SourceOffset, decode_offset
from streaming_jobs.source.driver.subscription import Subscription, parse_subscription
from streaming_jobs.source.requests import RowRules
from streaming_jobs.source.spark_columns import HEADERS, default_columns, known_columns

if TYPE_CHECKING:
    # It loads the decoder and the registry's client, which queries of bytes do without.
    from streaming_jobs.source.field_options import FieldRequest

_LOG: Final = logging.getLogger("shardlog")
# What Spark makes of several paths in `load`.
_INSTEAD: Final = {"paths": "a source reads one root, load(root); subscribe names its streams"}
_SNAPSHOT_NOW: Final = "now"
_DELAY_MAX: Final = timedelta(minutes=15)
_ID_BITS: Final = 31

Mode = Literal["stream", "batch"]


@dataclass(frozen=True, slots=True)
class Admission:
    """How much of the backlog one batch of a stream takes, and whether a run of it has an end."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max: timedelta = _DELAY_MAX
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Splitting:
    """How the offsets of a batch are cut into tasks."""

    partitions_min: int | None = None
    records_max: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was asked for.

    Attributes:
        path: The root.
        subscription: Which of its streams.
        starting: Where reading begins.
        ending: Where it ends.
        admission: How much a batch of a stream takes.
        splitting: How batches are cut into tasks.
        rules: Which rows, and how.
        fails_on_loss: Whether a loss ends the query, or is reported and skipped.
        snapshot: What is read, in place of the two bounds.
        takes_snapshot: Whether one is to be taken of them, once.
        field_request: What is asked of values that are read by fields; None where they are bytes.
            The rules lack their columns until the schema is known.
    """

    path: str
    subscription: Subscription
    starting: Bound
    ending: Bound
    admission: Admission
    splitting: Splitting
    rules: RowRules
    fails_on_loss: bool
    snapshot: SourceOffset | None = None
    takes_snapshot: bool = False
    field_request: "FieldRequest | None" = None


def parse_source_options(options: Mapping[str, str], mode: Mode | None = None) -> SourceOptions:
    """Return options as values; refuse what is unknown, missing, or of no use in a mode.

    `load` does not know yet whether they are for a stream or a batch; then the mode is None.
    """
    values = OptionValues(options, SOURCE_OPTIONS, _INSTEAD)
    path, subscription = values.root(), parse_subscription(values)
    default = LATEST if mode == "stream" else EARLIEST
    delay = values.span(
        "maxTriggerDelay", "500ms, 90s, 15m, 1h, 7d", timedelta(0), bare="ms", is_endless=True
    )
    admission = Admission(
        values.whole("maxOffsetsPerTrigger", 1),
        values.whole("minOffsetsPerTrigger", 1),
        _DELAY_MAX if delay is None else delay,
        values.truth("availableNow", default=False),
    )
    most, least = admission.offsets_max, admission.offsets_min
    if most is not None and least is not None and least > most:
        message = f"option minOffsetsPerTrigger: {least} is above maxOffsetsPerTrigger {most}"
        raise InvalidRequestError(message)
    parsed = SourceOptions(
        path,
        subscription,
        parse_bound(values, "starting", subscription, default),
        parse_bound(values, "ending", subscription, LATEST),
        admission,
        Splitting(values.whole("minPartitions", 1), values.whole("maxRecordsPerPartition", 1)),
        _rules(values),
        values.truth("failOnDataLoss", default=True),
        _snapshot(values, subscription),
        _takes_snapshot(values),
        _field_request(values),
    )
    _check_mode(values, mode, parsed)
    return parsed


def _takes_snapshot(values: OptionValues) -> bool:
    return (values.text("snapshot") or "").strip().lower() == _SNAPSHOT_NOW


def _snapshot(values: OptionValues, subscription: Subscription) -> SourceOffset | None:
    """Return the snapshot that was handed over, None if none was."""
    wanted = "now, or the text that snapshot(root, stream) gave"
    if not values.has("snapshot") or _takes_snapshot(values):
        return None
    document = values.document("snapshot", dict, wanted) or {}
    taken = decode_offset(document)
    is_whole = subscription.pattern is not None or set(taken.streams) == set(subscription.names)
    if not is_whole or not all(subscription.takes(stream) for stream in taken.streams):
        of, subscribed = sorted(taken.streams), subscription.label()
        message = f"option snapshot: it is of streams {of}, not of {subscribed}"
        raise InvalidRequestError(message)
    for stream, shards in (subscription.shards or {}).items():
        if (of_stream := set(taken.streams[stream].ends)) != shards:
            message = f"option snapshot: it is of shards {sorted(of_stream)}, not of those assigned"
            raise InvalidRequestError(message, stream=stream)
    births = [(one.birth or {}).keys() == one.ends.keys() for one in taken.streams.values()]
    if "@" not in document or not all(births):
        refuse("snapshot", str(values.text("snapshot")), wanted)
    bounds = [name for name in (*STARTING, *ENDING) if values.has(name)]
    if bounds:
        message = f"option {bounds[0]}: the snapshot says where reading begins and ends"
        raise InvalidRequestError(message)
    return taken


def _rules(values: OptionValues) -> RowRules:
    has_headers = values.truth("includeHeaders", default=False)
    columns = values.names("columns")
    if columns is None or _is_typed(values):
        columns = default_columns(has_headers=has_headers)
    elif unknown := sorted(set(columns) - set(known_columns())):
        meant = did_you_mean(unknown, known_columns())
        columns_there = ", ".join(known_columns())
        message = f"option columns: no {', '.join(unknown)}{meant}; there are {columns_there}"
        raise InvalidRequestError(message)
    elif has_headers and HEADERS not in columns:
        columns = (*columns, HEADERS)
    start, end = values.whole("startPrimary"), values.whole("endPrimary")
    rules = RowRules(
        columns,
        INT64_MIN if start is None else start,
        INT64_MAX if end is None else end,
        _ids(values),
        _keys(values),
        values.truth("includeLate", default=True),
        values.truth("includeExpired", default=False),
    )
    if rules.start > rules.end:
        message = f"option startPrimary: {rules.start} is above endPrimary {rules.end}"
        raise InvalidRequestError(message)
    return rules


def _is_typed(values: OptionValues) -> bool:
    # The schema of a row says whether its value is Avro's or JSON.
    return values.choice("valueFormat", ("raw", "avro", "json"), "raw") != "raw"


def _field_request(values: OptionValues) -> "FieldRequest | None":
    if not _is_typed(values):
        if field_options := [name for name in FIELD_OPTIONS if values.has(name)]:
            message = (
                f"option {field_options[0]}: it is for valueFormat=avro or json; "
                "values are bytes otherwise"
            )
            raise InvalidRequestError(message)
        return None
    from streaming_jobs.source.field_options import parse_field_request  # noqa: PLC0415 - as above

    has_headers = values.truth("includeHeaders", default=False)
    return parse_field_request(values, values.names("columns"), has_headers=has_headers)


def _ids(values: OptionValues) -> tuple[int, ...] | None:
    """Return ids given as `1,2,3` or as a JSON list."""
    text = values.text("ids")
    if text is None:
        return None
    parts = text.strip().removeprefix("[").removesuffix("]").split(",")
    ids = [whole_number(part) for part in parts]
    numbers = sorted({number for number in ids if number is not None})
    if None in ids or any(not -(2**_ID_BITS) <= number < 2**_ID_BITS for number in numbers):
        refuse("ids", text, "32-bit integers separated by commas")
    return tuple(numbers)


def _keys(values: OptionValues) -> tuple[bytes | None, ...] | None:
    """Return keys given as a JSON list: texts, bytes as `{"hex": "00ff"}`, or null for no key."""
    wanted = 'a JSON list of texts, {"hex": digits} or null, like ["a", {"hex": "00ff"}]'
    entries = values.document("keys", list, wanted)
    if entries is None:
        return None
    keys: dict[bytes | None, None] = {}
    for entry in entries:
        try:
            keys[_key(entry)] = None
        except ValueError:
            refuse("keys", str(values.text("keys")), wanted)
    if not keys:
        refuse("keys", str(values.text("keys")), wanted)
    return tuple(keys)


def _key(entry: object) -> bytes | None:
    match entry:
        case None:
            return None
        case str():
            return entry.encode()
        case {"hex": str(digits), **rest} if not rest:
            return bytes.fromhex(digits)
    message = "not a key"
    raise ValueError(message)


def _check_mode(values: OptionValues, mode: Mode | None, parsed: SourceOptions) -> None:
    if mode == "stream":
        if values.has("snapshot"):
            message = (
                "option snapshot is for batch reads; startingOffsets takes the same text, "
                "for a stream that goes on from there"
            )
            raise InvalidRequestError(message)
        idle = [name for name in ENDING if values.has(name)]
        if idle:
            are = f"option {idle[0]} is" if len(idle) == 1 else f"options {', '.join(idle)} are"
            message = f"{are} for batch reads; a stream has no end"
            raise InvalidRequestError(message)
    if mode == "batch":
        idle = [name for name in LIMITS if values.has(name)]
        if idle:
            _LOG.warning("options for streams do nothing in a batch read: %s", ", ".join(idle))
        _check_leaves_rows("startingOffsets", parsed.starting, LATEST, "latest")
        _check_leaves_rows("endingOffsets", parsed.ending, EARLIEST, "earliest")


def _check_leaves_rows(name: str, bound: Bound, idle: int, word: str) -> None:
    """Refuse a batch that reads nothing of a shard, as Kafka's source does."""
    shards = [
        f"shard {shard} at {word}, {idle}, of stream {stream!r}"
        for stream, places in (bound.by_stream or {}).items()
        for shard, place in places.items()
        if place == idle
    ]
    if bound.everywhere == idle or shards:
        where = shards[0] if shards else word
        message = f"option {name}: {where} leaves nothing to read in a batch"
        raise InvalidRequestError(message)
