"""Suggests a setting for an unknown key: by its name in other programs, or the nearest spelling.

People who know Kafka's tools write `brokers`, `topic` or `auto.offset.reset`, and the most similar
spelling would be another setting. Each such name is answered by the setting that does it.
"""

from collections.abc import Collection, Mapping
from typing import Final

from connectors.kafka import likely_setting, setting_called
from storage_core.platform.name_suggestions import likely_name

_KAFKA: Final = "kafka"
# By setting: what it is called elsewhere, with underscores for dots and dashes.
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": ("subscribe", "subscription", "topic", "topic_list", "topic_names"),
    "topic_pattern": ("pattern", "subscribe_pattern", "subscribepattern", "topic_regex"),
    "schema.registry.url": (
        *("registry", "registry_url", "schema_registry", "schema_registry_url", "schema_url"),
        "schemaregistry",
    ),
    "start": (
        *("auto_offset_reset", "from_beginning", "kafka_auto_offset_reset", "offset_reset"),
        *("starting_offsets", "startingoffsets", "starting_timestamp", "startingtimestamp"),
    ),
    "root": ("data_dir", "data_directory", "dir", "directory", "path"),
    "dead_letters.topic": ("dead_letter_topic", "dlq", "dlq_topic"),
    "metrics.listen": ("health_port", "listen", "metrics_port", "port"),
    "log.levels": ("log_level", "loglevel"),
    "log.file": ("log_file", "logfile"),
    "stream.retention_hours": ("retention", "retention_ms", "stream_retention", "ttl"),
    "stream.value_format": ("format", "stream_format", "value_deserializer"),
}
_BY_NAME: Final = {name: setting for setting, names in _CALLED.items() for name in names}


def likely_key(key: str, settings: Collection[str]) -> str | None:
    """Return the setting that a key likely means; None if there is none.

    Args:
        key: The key; dots lead into sections.
        settings: The names of all settings.
    """
    plain = _plain(key)
    by_plain = {_plain(name): name for name in settings}
    if plain in by_plain or plain in _BY_NAME:
        return by_plain.get(plain) or _BY_NAME[plain]
    inner = [one for one in settings if one.partition(".")[2] == key]
    if len(inner) == 1:
        return inner[0]
    if within := {one.partition(".")[2]: one for one in keys_beside(key, settings)}:
        # By what follows the section alone: all of them begin with it.
        nearest = likely_name(key.partition(".")[2], within)
        return None if nearest is None else within[nearest]
    name = key.removeprefix(f"{_KAFKA}.")
    called = setting_called(name)
    nearest = None if called is not None else likely_name(key, settings)
    if nearest is not None:
        return nearest
    of_client = called or likely_setting(name)
    return None if of_client is None else f"{_KAFKA}.{of_client}"


def keys_beside(key: str, settings: Collection[str]) -> list[str]:
    """Return the settings of the section that a key names; none if it names no section."""
    section, dot, _ = key.partition(".")
    return [one for one in settings if dot and one.startswith(f"{section}.")]


def in_file(key: str) -> str:
    """Return a setting as it is written in the file."""
    section, _, name = key.partition(".")
    return f'{section}."{name}"' if section == _KAFKA else key


def in_environment(key: str) -> str:
    """Return a setting as the environment has it, behind our prefix."""
    section, dot, name = key.partition(".")
    if section == _KAFKA:
        name = name.replace(".", "_")
    return f"{section}{dot}{name}".replace(".", "__").upper()


def _plain(name: str) -> str:
    return name.lower().replace(".", "_").replace("-", "_")
