"""`shardlog alter`: change of a stream what may change, by the names the worker's settings have.

A stream keeps the settings it was made with; a file that says otherwise later counts for new
streams only. What rows were judged by (the jitter, where primaries and ids come from) is fixed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from connectors.cli.arguments import Root, StreamName
from connectors.cli.printing import print_line
from storage_core import IndexOptions, InvalidRequestError, Stream, StreamOptions

_NONE: Final = "none"
_FIXED: Final = ("value_format", "primary", "secondary", "unit", "key_mode", "jitter_ms")
# Beside them in the worker's file, but not kept with the stream.
_OF_THE_WORKER: Final = ("null_key",)


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting: the option of the stream behind it, and its form in both directions."""

    option: str
    parsed: Callable[[str], object]
    shown: Callable[[object], object] = lambda value: value


def _count_or_none(text: str) -> int | None:
    return None if text == _NONE else int(text)


def _hours(text: str) -> timedelta | None:
    if text == _NONE:
        return None
    span = timedelta(hours=float(text))
    if span <= timedelta(0):
        message = "takes hours above 0, or none"
        raise InvalidRequestError(message)
    return span


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


def _milliseconds(text: str) -> timedelta:
    return timedelta(milliseconds=int(text))


def _in_milliseconds(value: object) -> object:
    return round(value.total_seconds() * 1000) if isinstance(value, timedelta) else value


def _index_setting(name: str) -> tuple[str, _Setting]:
    """Return what an option of the index is called here, and the setting."""
    if name == "tick":
        return "index.tick_ms", _Setting(name, _milliseconds, _in_milliseconds)
    if name == "is_on":
        return "index.is_on", _Setting(name, _truth, lambda value: str(value).lower())
    return f"index.{name}", _Setting(name, int)


# The index's own options, behind `StreamOptions.index`.
_INDEX: Final = dict(_index_setting(one.name) for one in fields(IndexOptions))
_SETTINGS: Final[Mapping[str, _Setting]] = {
    "retention_hours": _Setting("retention", _hours, _in_hours),
    "ahead_max_ms": _Setting("ahead_max", _count_or_none),
    "payload_bytes_max": _Setting("payload_bytes_max", int),
    "records_max": _Setting("records_max", _count_or_none),
    "bytes_max": _Setting("bytes_max", _count_or_none),
    "reads_max": _Setting("reads_max", int),
    "read_bytes_max": _Setting("read_bytes_max", int),
    "sync": _Setting("sync", str),
    "codec": _Setting("codec", str),
    "seal_rows": _Setting("seal_rows", int),
    "seal_after_minutes": _Setting("seal_after", _minutes, _in_minutes),
    "keep_hot_hours": _Setting("keep_hot", _hours, _in_hours),
    "keep_replaced_minutes": _Setting("keep_replaced", _minutes, _in_minutes),
    "never_cold": _Setting("never_cold", _truth, lambda value: str(value).lower()),
}

Settings = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=VALUE",
        help=f"What to change, as retention_hours=48; `none` for no bound. There are "
        f"{', '.join([*_SETTINGS, *_INDEX])}.",
        show_default=False,
    ),
]


def alter(root: Root, stream: StreamName, settings: Settings) -> None:
    """Change settings of a stream: how long it keeps records, what it takes, how it is read.

    Refused while a writer holds the stream: stop the worker first. It tells the old and the new
    value of each; what was judged by the old ones stays as it is.

    Example: shardlog alter ./data telemetry retention_hours=48
    """
    chosen = [_chosen(text) for text in settings]
    with Stream.open(root, stream) as opened:
        before = opened.options
        if before.unit != "ms" and any(name == "ahead_max_ms" for name, _ in chosen):
            message = f"ahead_max_ms: this stream's primaries are not milliseconds: {before.unit}"
            raise InvalidRequestError(message, stream=stream)
        changed = {_SETTINGS[name].option: value for name, value in chosen if name in _SETTINGS}
        of_index: dict[str, Any] = {
            _INDEX[name].option: value for name, value in chosen if name in _INDEX
        }
        if of_index:
            changed["index"] = replace(before.index, **of_index)
        opened.alter(**changed)
        for name, _ in chosen:
            print_line(f"{name}: {_told(name, before)} -> {_told(name, opened.options)}")


def _chosen(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        message = f"{text!r}: write NAME=VALUE"
        raise InvalidRequestError(message)
    if name in _FIXED:
        message = (
            f"{name}: is fixed when a stream is made; to have it otherwise, drop the stream "
            "(`shardlog drop`) and take it again"
        )
        raise InvalidRequestError(message)
    if name in _OF_THE_WORKER:
        message = (
            f"{name}: is the worker's own setting, which no stream keeps; set stream.{name} in its "
            "file and start it again"
        )
        raise InvalidRequestError(message)
    setting = _SETTINGS.get(name) or _INDEX.get(name)
    if setting is None:
        there = ", ".join([*_SETTINGS, *_INDEX])
        message = f"{name}: no such setting of a stream; there are {there}"
        raise InvalidRequestError(message)
    try:
        parsed: Any = setting.parsed(value)
        if name in _SETTINGS:
            # As the stream will check it, but told as it was typed.
            StreamOptions(**{setting.option: parsed})
    except InvalidRequestError as error:
        message = f"{name}={value}: {error.message.partition(': ')[2] or error.message}"
        raise InvalidRequestError(message) from error
    except (ValueError, OverflowError) as error:
        why = "it needs a bound" if value == _NONE else "no number"
        message = f"{name}={value}: {why}, write {name}=1000 or the like"
        raise InvalidRequestError(message) from error
    return name, parsed


def _told(name: str, options: StreamOptions) -> object:
    setting = _SETTINGS.get(name) or _INDEX[name]
    of = options if name in _SETTINGS else options.index
    value = setting.shown(getattr(of, setting.option))
    return _NONE if value is None else value
