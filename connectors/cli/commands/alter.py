"""`shardlog alter`: change settings of a stream, by the names they have in the worker's file.

A stream keeps the settings it was created with; a changed file applies to new streams only. The
jitter, and where primaries and ids come from, are fixed.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from connectors.cli.input.stream_settings import INDEX, NONE, SETTINGS
from connectors.cli.output.printing import print_line
from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.lake import was_published
from storage_core.platform.name_suggestions import did_you_mean, listed_names

_FIXED: Final = (
    *("value_format", "event_type", "primary", "secondary", "unit", "key_mode", "jitter_ms"),
)
# What becomes of what was published: where the stream has another lake, and where it has none.
_LEFT_IN_LAKE: Final = (
    "stays as it is; all parts are published to the other one",
    "stays as it is; nothing more is published",
)
# Beside them in the worker's file, but not kept with the stream.
_OF_THE_WORKER: Final = ("null_key",)


def alter(*, root: Path, stream: str, settings: list[str]) -> None:
    """Change settings of a stream: how long it keeps records, what it takes, how it is read."""
    chosen = [_chosen(text) for text in settings]
    with Stream.open(root, stream) as opened:
        before = opened.options
        if before.unit != "ms" and any(name == "ahead_max_ms" for name, _ in chosen):
            message = f"ahead_max_ms: this stream's primaries are not milliseconds: {before.unit}"
            raise InvalidRequestError(message, stream=stream)
        changed = {SETTINGS[name].option: value for name, value in chosen if name in SETTINGS}
        of_index: dict[str, Any] = {
            INDEX[name].option: value for name, value in chosen if name in INDEX
        }
        if of_index:
            changed["index"] = replace(before.index, **of_index)
        opened.alter(**changed)
        for name, _ in chosen:
            print_line(f"{name}: {_displayed(name, before)} -> {_displayed(name, opened.options)}")
        lake = opened.options.lake
    if before.lake not in (None, lake) and was_published(root, stream, before.lake):
        print_line(f"what was published at {before.lake} {_LEFT_IN_LAKE[lake is None]}")


def _chosen(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        message = f"{text!r}: write NAME=VALUE"
        raise InvalidRequestError(message)
    if name in _FIXED:
        message = (
            f"{name}: is fixed when a stream is created; to change it, drop the stream "
            "(`shardlog drop`) and ingest it again"
        )
        raise InvalidRequestError(message)
    if name in _OF_THE_WORKER:
        message = (
            f"{name}: is a setting of the worker, not of the stream; set stream.{name} in its file "
            "and restart it"
        )
        raise InvalidRequestError(message)
    setting = SETTINGS.get(name) or INDEX.get(name)
    if setting is None:
        names = [*SETTINGS, *INDEX]
        meant = did_you_mean([name], names)
        message = f"{name}: a stream has no such setting{meant}; it has {listed_names(names)}"
        raise InvalidRequestError(message)
    try:
        parsed: Any = setting.parsed(value)
        if name in SETTINGS:
            # The stream's own check, with the name that was typed.
            StreamOptions(**{setting.option: parsed})
    except InvalidRequestError as error:
        said = error.message.partition(": ")[2] or error.message
        # Of a lake with a password in it the refusal repeats the rest.
        is_hidden = name == "lake" and value not in said
        message = f"{name}: {said}" if is_hidden else f"{name}={value}: {said}"
        raise InvalidRequestError(message) from error
    except (ValueError, OverflowError) as error:
        why = "it needs a bound" if value == NONE else "not a number"
        message = f"{name}={value}: {why}; write {name}=1000, for example"
        raise InvalidRequestError(message) from error
    return name, parsed


def _displayed(name: str, options: StreamOptions) -> object:
    setting = SETTINGS.get(name) or INDEX[name]
    of = options if name in SETTINGS else options.index
    value = setting.display(getattr(of, setting.option))
    return NONE if value is None else value
