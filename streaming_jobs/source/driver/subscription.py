"""Which streams of a root a source reads, as Kafka's options of the same names choose topics.

    subscribe (or stream)     names, separated by commas; all of them are there
    subscribePattern          streams in whose name the expression is found, each from the moment
                              that it is there
    assign                    {"<stream>":[0,1]}: these shards and no others

A pattern is Java's as far as Python reads it the same; what Python would read otherwise is refused.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from storage_core import InvalidRequestError, is_stream_name, list_streams
from streaming_jobs.common.option_values import OptionValues, refuse, whole_number

_CHOICES: Final = ("assign", "subscribe", "subscribePattern")
_ASSIGNED: Final = 'JSON like {"telemetry":[0,1]}'


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which streams are read, and which of their shards.

    Attributes:
        names: The streams, by name; none where a pattern chooses them.
        pattern: What is found in the names of those that are read.
        shards: The shards that are read of each stream; None where it is all.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    shards: Mapping[str, frozenset[int]] | None = None

    def streams(self, path: str) -> tuple[str, ...]:
        """Return the streams that are read, of those that a root has now, sorted.

        Raises:
            InvalidRequestError: A pattern chooses, and there is no such root.
        """
        if self.pattern is None:
            return self.names
        return tuple(name for name in list_streams(path) if self.takes(name))

    def takes(self, stream: str) -> bool:
        """Tell whether a stream of this name is read."""
        if self.pattern is None:
            return stream in self.names
        return _compiled(self.pattern).search(stream) is not None

    def label(self) -> str:
        """Return what is read as an error shows it."""
        if self.pattern is not None:
            return f"streams that match {self.pattern!r}"
        if len(self.names) == 1:
            return f"stream {self.names[0]!r}"
        return f"streams {list(self.names)}"


def parse_subscription(options: OptionValues) -> Subscription:
    """Return what options subscribe to; one of them says it."""
    options_given = [name for name in _CHOICES if options.has(name)]
    if options.has("stream") and "subscribe" not in options_given:
        options_given.append("stream")
    if len(options_given) > 1:
        message = f"options {' and '.join(options_given)} both say what is read; give one of them"
        raise InvalidRequestError(message)
    match options_given:
        case ["assign"]:
            return _assigned(options)
        case ["subscribePattern"]:
            return _by_pattern(str(options.text("subscribePattern")))
        case _:
            return _by_name(options)


def _by_name(options: OptionValues) -> Subscription:
    stream, subscribed = options.text("stream"), options.text("subscribe")
    if stream and "," in stream:
        refuse("stream", stream, "one stream; subscribe names several")
    names = tuple(sorted({name.strip() for name in (subscribed or stream or "").split(",")} - {""}))
    if stream and subscribed and names != (stream,):
        message = f"options stream {stream!r} and subscribe {subscribed!r} name different streams"
        raise InvalidRequestError(message)
    if not names:
        message = 'option stream is missing: the name of the stream, .option("stream", …)'
        raise InvalidRequestError(message)
    return Subscription(names)


def _by_pattern(text: str) -> Subscription:
    pattern = text.strip()
    if not pattern:
        refuse("subscribePattern", text, "a pattern; .* matches every stream")
    try:
        _compiled(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        reason = str(error).partition(" at position")[0]
        message = f"option subscribePattern: {pattern!r} cannot be read as a pattern: {reason}"
        raise InvalidRequestError(message) from error
    return Subscription(pattern=pattern)


def _assigned(options: OptionValues) -> Subscription:
    document = options.document("assign", dict, _ASSIGNED) or {}
    shards = {str(name): _numbers(options, listed) for name, listed in document.items()}
    if not shards or not all(is_stream_name(name) for name in shards):
        _refuse_assign(options)
    return Subscription(tuple(sorted(shards)), shards=shards)


def _numbers(options: OptionValues, listed: object) -> frozenset[int]:
    if not isinstance(listed, list) or not listed:
        _refuse_assign(options)
    numbers = [whole_number(one) for one in listed]
    shards = frozenset(number for number in numbers if number is not None and number >= 0)
    if len(shards) != len(listed):
        _refuse_assign(options)
    return shards


def _refuse_assign(options: OptionValues) -> NoReturn:
    refuse("assign", str(options.text("assign")), _ASSIGNED)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # What a later Python reads as Java does, as [a-z&&[^b]], this one reads otherwise.
        warnings.simplefilter("error", FutureWarning)
        return re.compile(pattern)
