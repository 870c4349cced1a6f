"""Settings of the file that do not count for a stream, since it was made with others.

A stream keeps what it was made with. Whoever changes a line and starts the worker again would
otherwise believe that it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from connectors.options import StreamSettings
from storage_core import StreamOptions


@dataclass(frozen=True, slots=True)
class IdleSetting:
    """A setting that does not count.

    Attributes:
        name: Its name in the file.
        wanted: What the file says, or its default.
        in_force: What the stream was made with, or altered to.
        advice: How the stream gets what is wanted.
    """

    name: str
    wanted: float | None
    in_force: float | None
    advice: str


def idle_settings(settings: StreamSettings, options: StreamOptions) -> Iterator[IdleSetting]:
    """Yield the settings that do not count for a stream with these options.

    What is fixed is compared with defaults too; what may be altered only if the file names it:
    where it does not, the stream is meant to say.
    """
    if settings.jitter_ms != options.jitter:
        advice = "it is fixed: to have it otherwise, `shardlog drop` the stream and take it again"
        yield IdleSetting("jitter_ms", settings.jitter_ms, options.jitter, advice)
    alterable = {"retention_hours": _hours(options.retention)}
    if options.unit == "ms":
        alterable["ahead_max_ms"] = options.ahead_max
    for name, in_force in alterable.items():
        wanted = getattr(settings, name)
        if name in settings.model_fields_set and wanted != in_force:
            value = "none" if wanted is None else f"{wanted:g}"
            advice = f"`shardlog alter ROOT STREAM {name}={value}` changes it"
            yield IdleSetting(name, wanted, in_force, advice)


def _hours(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds() / 3600
