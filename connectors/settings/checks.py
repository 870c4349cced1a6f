"""Checks of single settings beyond their types: topics, times, librdkafka's names.

Pure functions. Each returns its value, or raises ValueError with what is wrong and what to write;
options.py adds the key. What Kafka or the disk would refuse only in a running worker is refused
here, so that `--check` and a start refuse the same.
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

from connectors.kafka import BROKER_NAMES
from connectors.settings.moments import microseconds_of
from storage_core import is_stream_name

BOOTSTRAP: Final = "bootstrap.servers"
GROUP: Final = "group.id"

_STARTS: Final = ("earliest", "latest")
_START_MS_MAX: Final = 253_402_300_799_999
# 2001-09-09: a bare number below it is seconds, or an offset, rather than milliseconds.
_START_MS_MIN: Final = 10**12
_SHOWN_MAX: Final = 100
# NOTE: librdkafka (2.16) ends the process over an empty group.id, and waits without end for
# brokers that are not named or a group that it has no strategy for.
_NEVER_EMPTY: Final = (*BROKER_NAMES, GROUP, "partition.assignment.strategy")

_Topics = TypeVar("_Topics", bound=Collection[str])


def check_root(root: object) -> object:
    """Refuse a root that is the empty text; as a path it would be the current directory."""
    if root == "":
        message = "is empty; name a directory"
        raise ValueError(message)
    return root


def check_start(start: object) -> object:
    """Refuse what is neither an end of a log nor a time."""
    start_ms(start)
    return start


def start_ms(start: object) -> int | None:
    """Return a start as a time in milliseconds, None when it is either end of a log."""
    if start in _STARTS:
        return None
    time_ms = _milliseconds(start)
    if time_ms is None:
        message = (
            f"{start if isinstance(start, datetime) else repr(start)} is neither earliest, latest "
            'nor a time, as "2026-01-31T00:00Z" (in quotes) or milliseconds'
        )
        raise ValueError(message)
    if not 0 <= time_ms <= _START_MS_MAX:
        message = (
            f"{start!r} lies outside 1970-01-01T00:00Z to 9999-12-31T23:59:59Z, "
            f"in milliseconds 0 to {_START_MS_MAX}"
        )
        raise ValueError(message)
    if 0 < time_ms < _START_MS_MIN and _is_number(start):
        message = (
            f"{start!r} is in milliseconds the time {datetime.fromtimestamp(time_ms / 1000, UTC)}, "
            'which no record has: take earliest, latest, a time as "2026-01-31T00:00Z", or '
            f"milliseconds from {_START_MS_MIN}; not seconds and not an offset"
        )
        raise ValueError(message)
    return time_ms


def _is_number(start: object) -> bool:
    return isinstance(start, int) or (isinstance(start, str) and start.isdigit())


def _milliseconds(start: object) -> int | None:
    if isinstance(start, int) and not isinstance(start, bool):
        return start
    if not isinstance(start, str):
        return None
    try:
        if start.lstrip("-").isdigit():
            return int(start)
        return microseconds_of(start) // 1000
    except ValueError:
        return None


def check_topics(names: _Topics) -> _Topics:
    """Refuse names that no topic can have, and duplicates."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            message = f"{name!r} is listed twice; name it once"
            raise ValueError(message)
        seen.add(name)
        if name.startswith("^"):
            message = f"{name!r} is a pattern; use topic_pattern for it"
            raise ValueError(message)
        if not is_stream_name(name):
            shortened = name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}..."
            allowed = "1 to 249 letters, digits, dots, dashes, underscores"
            message = f"{shortened!r} is not a topic name: use {allowed}"
            raise ValueError(message)
    return names


def check_list_of_topics(topics: object) -> object:
    """Refuse a single name where a list of them is meant."""
    if not isinstance(topics, list | tuple):
        message = f"write a list, as topics={json.dumps([str(topics)])}"
        raise ValueError(message)  # noqa: TRY004 - the kind that pydantic takes
    return topics


def check_pattern(pattern: str) -> str:
    """Refuse an invalid regular expression, or one that librdkafka would treat as a name."""
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"{pattern!r} is not a regular expression: {error}"
        raise ValueError(message) from error
    if not pattern.startswith("^"):
        message = f"{pattern!r} must begin with ^"
        raise ValueError(message)
    return pattern


def check_kafka(settings: object) -> object:
    """Refuse values that librdkafka cannot take, and empty ones that it does not survive."""
    for name, value in settings.items() if isinstance(settings, Mapping) else ():
        if isinstance(value, Mapping):
            message = f'quote the name: "{first_name(name, value)}" = ...'
            raise ValueError(message)  # noqa: TRY004 - as above
        if not isinstance(value, str | int | float):
            message = f'"{name}" takes text, a number or true or false'
            raise ValueError(message)  # noqa: TRY004 - as above
        if not _is_text(name) or not _is_text(str(value)):
            message = f"{name!a} is not UTF-8, or holds a NUL; librdkafka takes neither"
            raise ValueError(message)
        if name in BROKER_NAMES and "@" in str(value):
            message = (
                f'"{name}" takes host:port alone; a user and a password are "sasl.username" and '
                '"sasl.password"'
            )
            raise ValueError(message)
        if name in _NEVER_EMPTY and not str(value).strip():
            message = f'"{name}" is empty; set it, or leave it out'
            raise ValueError(message)
    return settings


def _is_text(text: str) -> bool:
    # NOTE: confluent-kafka (2.16) ends the process over such a group.id.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def first_name(name: str, value: object) -> str:
    """Return the name that was split at its dots, `a.b.c` of a = {b = {c = ...}}."""
    while isinstance(value, Mapping) and value:
        key, value = next(iter(value.items()))
        name = f"{name}.{key}"
    return name
