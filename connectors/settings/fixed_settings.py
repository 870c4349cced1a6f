"""Settings of the file that do not count for a stream, since it was made with others.

A stream keeps what it was made with, so that settings meant for a new topic do no harm to those
that are there. Whoever changes a line and starts the worker again would otherwise believe that it
holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from connectors.settings.mapping_rules import MappingRules
from connectors.settings.options import StreamSettings
from storage_core import StreamOptions, StreamOrigin

_FIXED: Final = "it is fixed: to have it otherwise, `shardlog drop` the stream and take it again"


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
    wanted: float | str | None
    in_force: float | str | None
    advice: str


def rules_of(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> MappingRules:
    """Return how the records of a stream's topic become rows.

    Only what becomes of records without a key is not kept with the stream.
    """
    return MappingRules(
        origin.primary, origin.key_mode, settings.null_key, options.payload_bytes_max
    )


def idle_settings(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> Iterator[IdleSetting]:
    """Yield the settings that do not count for a stream with these options and this origin.

    What is fixed is compared with defaults too; what may be altered only if the file names it:
    where it does not, the stream is meant to say.
    """
    fixed: dict[str, float | str] = {
        "primary": origin.primary,
        "key_mode": origin.key_mode,
        "jitter_ms": options.jitter,
    }
    for name, made_with in fixed.items():
        wanted = getattr(settings, name)
        if wanted != made_with:
            yield IdleSetting(name, wanted, made_with, _FIXED)
    alterable = {
        "retention_hours": _hours(options.retention),
        "payload_bytes_max": options.payload_bytes_max,
    }
    if options.unit == "ms":
        alterable["ahead_max_ms"] = options.ahead_max
    for name, in_force in alterable.items():
        wanted = getattr(settings, name)
        if name in settings.model_fields_set and wanted != in_force:
            value = "none" if wanted is None else str(wanted).removesuffix(".0")
            advice = f"`shardlog alter ROOT STREAM {name}={value}` changes it"
            yield IdleSetting(name, wanted, in_force, advice)


def _hours(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds() / 3600
