"""The settings of a stream that `alter` can change, by their names in the worker's file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from storage_core import IndexOptions, InvalidRequestError

NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its stream option, and how it is parsed and displayed."""

    option: str
    parsed: Callable[[str], object]
    display: Callable[[object], object] = lambda value: value


def _count_or_none(text: str) -> int | None:
    return None if text == NONE else int(text)


def _hours(text: str) -> timedelta | None:
    if text == NONE:
        return None
    span = timedelta(hours=float(text))
    if span <= timedelta(0):
        message = "takes hours above 0, or none"
        raise InvalidRequestError(message)
    return span


def _hours_or_more(text: str) -> timedelta:
    return timedelta(hours=float(text))


def _hours_or_none(text: str) -> timedelta | None:
    return None if text == NONE else _hours_or_more(text)


def _in_hours(value: object) -> object:
    return value.total_seconds() / 3600 if isinstance(value, timedelta) else value


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        message = "takes true or false"
        raise InvalidRequestError(message)
    return text == "true"


def _minutes(text: str) -> timedelta:
    return timedelta(minutes=float(text))


def _in_minutes(value: object) -> object:
    return value.total_seconds() / 60 if isinstance(value, timedelta) else value


def _text_or_none(text: str) -> str | None:
    return None if text == NONE else text


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


def _in_seconds(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _milliseconds(text: str) -> timedelta:
    return timedelta(milliseconds=int(text))


def _in_milliseconds(value: object) -> object:
    return round(value.total_seconds() * 1000) if isinstance(value, timedelta) else value


def _index_setting(name: str) -> tuple[str, Setting]:
    """Return the name of an option of the index, and its setting."""
    if name == "tick":
        return "index.tick_ms", Setting(name, _milliseconds, _in_milliseconds)
    if name == "is_on":
        return "index.is_on", Setting(name, _truth, lambda value: str(value).lower())
    return f"index.{name}", Setting(name, int)


# The index's own options, behind `StreamOptions.index`.
INDEX: Final = dict(_index_setting(one.name) for one in fields(IndexOptions))
SETTINGS: Final[Mapping[str, Setting]] = {
    "retention_hours": Setting("retention", _hours, _in_hours),
    "ahead_max_ms": Setting("ahead_max", _count_or_none),
    "payload_bytes_max": Setting("payload_bytes_max", int),
    "records_max": Setting("records_max", _count_or_none),
    "bytes_max": Setting("bytes_max", _count_or_none),
    "reads_max": Setting("reads_max", int),
    "read_bytes_max": Setting("read_bytes_max", int),
    "sync": Setting("sync", str),
    "codec": Setting("codec", str),
    "seal_rows": Setting("seal_rows", int),
    "seal_after_minutes": Setting("seal_after", _minutes, _in_minutes),
    "keep_hot_hours": Setting("keep_hot", _hours, _in_hours),
    "keep_replaced_minutes": Setting("keep_replaced", _minutes, _in_minutes),
    "never_cold": Setting("never_cold", _truth, lambda value: str(value).lower()),
    "lake": Setting("lake", _text_or_none),
    "lake_lag_seconds": Setting("lake_lag", _seconds, _in_seconds),
    "lake_history_hours": Setting("lake_history", _hours_or_more, _in_hours),
    "keep_local_hours": Setting("keep_local", _hours_or_none, _in_hours),
}
