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


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        message = "takes true or false"
        raise InvalidRequestError(message)
    return text == "true"


def _text_or_none(text: str) -> str | None:
    return None if text == NONE else text


def _span(option: str, unit: str, least: int | None = None, *, or_none: bool = False) -> Setting:
    """Return a setting that is a span of time, by its number of a unit.

    Args:
        option: The stream option.
        unit: The unit, as `timedelta` names it.
        least: The least number; None if all above 0 are taken.
        or_none: Whether there may be none.
    """
    whole, shortest = timedelta(**{unit: 1}), timedelta(**{unit: least or 0})
    bound = f"{unit} above 0" if least is None else f"{unit}, {least} or more"

    def parsed(text: str) -> timedelta | None:
        if or_none and text == NONE:
            return None
        span = timedelta(**{unit: float(text)})
        if span < shortest or (least is None and not span):
            message = f"takes {bound}{', or none' if or_none else ''}"
            raise InvalidRequestError(message)
        return span

    def display(value: object) -> object:
        return value / whole if isinstance(value, timedelta) else value

    return Setting(option, parsed, display)


def _tick(text: str) -> timedelta:
    span = timedelta(milliseconds=int(text))
    try:
        IndexOptions(tick=span)
    except InvalidRequestError as error:
        message = "takes milliseconds above 0, up to a minute"
        raise InvalidRequestError(message) from error
    return span


def _in_milliseconds(value: object) -> object:
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value


def _index_setting(name: str) -> tuple[str, Setting]:
    """Return the name of an option of the index, and its setting."""
    if name == "tick":
        return "index.tick_ms", Setting(name, _tick, _in_milliseconds)
    if name == "is_on":
        return "index.is_on", Setting(name, _truth, lambda value: str(value).lower())
    return f"index.{name}", Setting(name, int)


# The index's own options, behind `StreamOptions.index`.
INDEX: Final = dict(_index_setting(one.name) for one in fields(IndexOptions))
SETTINGS: Final[Mapping[str, Setting]] = {
    "retention_hours": _span("retention", "hours", or_none=True),
    "ahead_max_ms": Setting("ahead_max", _count_or_none),
    "payload_bytes_max": Setting("payload_bytes_max", int),
    "records_max": Setting("records_max", _count_or_none),
    "bytes_max": Setting("bytes_max", _count_or_none),
    "reads_max": Setting("reads_max", int),
    "read_bytes_max": Setting("read_bytes_max", int),
    "sync": Setting("sync", str),
    "codec": Setting("codec", str),
    "seal_rows": Setting("seal_rows", int),
    "seal_after_minutes": _span("seal_after", "minutes"),
    "keep_hot_hours": _span("keep_hot", "hours", or_none=True),
    "keep_replaced_minutes": _span("keep_replaced", "minutes", 0),
    "never_cold": Setting("never_cold", _truth, lambda value: str(value).lower()),
    "lake": Setting("lake", _text_or_none),
    "lake_lag_seconds": _span("lake_lag", "seconds"),
    "lake_history_hours": _span("lake_history", "hours", 1),
    "keep_local_hours": _span("keep_local", "hours", 0, or_none=True),
}
