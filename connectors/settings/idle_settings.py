"""Settings of the file that do not apply to a stream, since it was made or altered with others."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from connectors.settings.stream_settings import PER_SECOND, StreamSettings, TimeUnit, field_of
from storage_core import StreamOptions, StreamOrigin

_FIXED: Final = "it is fixed: to change it, `shardlog drop` the stream and ingest it again"
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IdleSetting:
    """A setting of the file that does not apply to the stream.

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


def idle_settings(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> Iterator[IdleSetting]:
    """Yield the settings that do not count for a stream with these options and this origin.

    What is fixed is compared with defaults too; what may be altered only if the file names it:
    where it does not, the stream is meant to say.
    """
    key_mode: str = origin.key_mode
    if field_of(origin.secondary) and key_mode == "none":
        key_mode = "integer"
    fixed: dict[str, float | str] = {
        "value_format": origin.value_format,
        "primary": origin.primary,
        "secondary": origin.secondary,
        "unit": options.unit,
        "key_mode": key_mode,
        "jitter_ms": _in_ms(options.jitter, options.unit),
    }
    for name, made_with in fixed.items():
        wanted = settings.stream_unit if name == "unit" else getattr(settings, name)
        if name == "unit" and field_of(origin.primary) is None:
            # It follows from the primary.
            continue
        if wanted != made_with:
            yield IdleSetting(name, wanted, made_with, _FIXED)
    if settings.event_type != origin.event_type:
        yield IdleSetting("event_type", settings.event_type, origin.event_type, _FIXED)
    alterable: dict[str, float | str | None] = {
        "retention_hours": _hours(options.retention),
        "payload_bytes_max": options.payload_bytes_max,
        "seal_rows": options.seal_rows,
        "seal_after_minutes": options.seal_after / _MINUTE,
        "keep_hot_hours": _hours(options.keep_hot),
        "keep_replaced_minutes": options.keep_replaced / _MINUTE,
        "never_cold": options.never_cold,
        "lake": options.lake,
        "lake_lag_seconds": options.lake_lag.total_seconds(),
        "lake_history_hours": _hours(options.lake_history),
        "keep_local_hours": _hours(options.keep_local),
    }
    if options.unit != "sequence":
        ahead = options.ahead_max
        alterable["ahead_max_ms"] = None if ahead is None else _in_ms(ahead, options.unit)
    for name, in_force in alterable.items():
        wanted = settings.lake_of(origin.topic) if name == "lake" else getattr(settings, name)
        if name in settings.model_fields_set and wanted != in_force:
            value = wanted if isinstance(wanted, str) else str(wanted).removesuffix(".0").lower()
            advice = f"`shardlog alter ROOT STREAM {name}={value}` changes it"
            yield IdleSetting(name, wanted, in_force, advice)


def _in_ms(count: int, unit: TimeUnit) -> int:
    return count * 1000 // PER_SECOND.get(unit, 1000)


def _hours(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds() / 3600
