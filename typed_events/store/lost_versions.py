"""Versions of types that rows have and `_types` has not: an older copy of it was put back.

Each stream has the schemas of its rows, under the versions of its type. By these a version is
defined again: else the fields of its rows are hidden, and the next DEFINE gives its number to
other fields. What was defined and never stored is lost.
"""

import json
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from storage_core import Stream
from typed_events.store.owned_streams import OwnedStreams, ttl_of
from typed_events.types.event_type import NAMESPACE, EventType

_log: Final = logging.getLogger(__name__)


def define_lost(streams: OwnedStreams) -> None:
    """Define versions again that rows of the types have; durable on return."""
    for name, owned in streams.by_type.items():
        _define_lost(name, owned.stream, streams, 0)


def define_unlisted(name: str, streams: OwnedStreams, now_us: int) -> None:
    """Define a type again that only its rows know, if there are some; durable on return."""
    owned = streams.add_unlisted(name)
    if owned is not None:
        _define_lost(name, owned.stream, streams, now_us)


def _define_lost(name: str, stream: Stream, streams: OwnedStreams, now_us: int) -> None:
    versions = streams.stored_types.versions(name)
    numbers = [stored.event_type.version for stored in versions]
    ttl_s = versions[-1].event_type.ttl_s if versions else ttl_of(stream.options)
    for event_type in _lost_versions(name, stream, numbers):
        streams.add_version(replace(event_type, ttl_s=ttl_s), now_us)
        streams.refresh_types()
        _log.warning(
            "version %d of type %s was in its rows alone, as behind a restore of _types; it is "
            "defined again",
            event_type.version,
            name,
        )


def _lost_versions(name: str, stream: Stream, versions: Collection[int]) -> list[EventType]:
    """Return the versions of a type that its rows have beside those there are, oldest first."""
    lost = {
        entry.registry_id: EventType.from_avro(entry.registry_id, entry.text)
        for entry in stream.schemas()
        if entry.registry_id > 0
        and entry.registry_id not in versions
        and _is_of_type(name, entry.text)
    }
    return [lost[version] for version in sorted(lost)]


def _is_of_type(name: str, text: str) -> bool:
    record = json.loads(text)
    return f"{NAMESPACE}.{name}" in (record["name"], f"{record.get('namespace')}.{record['name']}")
