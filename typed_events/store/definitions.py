"""DEFINE: a version of a type, made by the owner of the streams."""

from storage_core import Clock
from typed_events.language.commands import Define
from typed_events.store.lost_versions import define_unlisted
from typed_events.store.owned_streams import OwnedStreams
from typed_events.types.event_type import next_version
from typed_events.types.stored_types import StoredType


def define(command: Define, streams: OwnedStreams, clock: Clock) -> tuple[StoredType, bool]:
    """Return the version that a command defines, and whether it is new; durable on return.

    1. Judge it by the versions that there are, those that only rows have included; the same fields
       again are no new version.
    2. Make the type's stream, if it is not there: each type that is listed has one.
    3. Let rows of state go that are past the TTL so far, so that a longer one brings none back.
    4. Store the version, durably; of a state type also where only its TTL is another.
    5. Let rows of state live as long as that says; whoever opens the streams next does so, too.

    Raises:
        CommandError: It cannot follow the version before, or a stream of other rows has its name.
    """
    now_us = clock.now_ns() // 1000
    name = command.event_type
    if not streams.stored_types.versions(name):
        define_unlisted(name, streams, now_us)
    versions = streams.stored_types.versions(name)
    wanted = next_version(command, [stored.event_type for stored in versions])  # 1
    same = [stored for stored in versions if stored.event_type == wanted]
    ttl_s = versions[-1].event_type.ttl_s if same else wanted.ttl_s
    streams.add(wanted.name, ttl_s)  # 2
    if same:
        streams.retain(wanted.name, ttl_s)
        return same[0], False
    streams.expire(wanted.name, ttl_s)  # 3
    streams.add_version(wanted, now_us)  # 4
    streams.retain(wanted.name, ttl_s)  # 5
    streams.refresh_types()
    return streams.stored_types.type_of(wanted.name, wanted.version), True
