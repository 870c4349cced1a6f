"""DEFINE: a version of a type, made by the owner of the streams."""

from typing import Any

import pyarrow as pa

from storage_core import Clock
from typed_events.language.commands import Define
from typed_events.store.owned_streams import OwnedStreams
from typed_events.types.event_type import next_version
from typed_events.types.stored_types import StoredType


def define(command: Define, streams: OwnedStreams, clock: Clock) -> tuple[StoredType, bool]:
    """Return the version that a command defines, and whether it is new; durable on return.

    1. Judge it by the versions that there are; the same fields again are no new version.
    2. Make the type's stream, if it is not there: each type that is listed has one.
    3. Let rows of state go that are past the TTL so far, so that a longer one brings none back.
    4. Store the version, durably; of a state type also where only its TTL is another.
    5. Let rows of state live as long as that says; whoever opens the streams next does so, too.

    Raises:
        CommandError: It cannot follow the version before, or a stream of other rows has its name.
    """
    versions = streams.stored_types.versions(command.event_type)
    wanted = next_version(command, [stored.event_type for stored in versions])  # 1
    same = [stored for stored in versions if stored.event_type == wanted]
    ttl_s = versions[-1].event_type.ttl_s if same else wanted.ttl_s
    streams.add(wanted.name, ttl_s)  # 2
    if same:
        streams.retain(wanted.name, ttl_s)
        return same[0], False
    streams.expire(wanted.name, ttl_s)  # 3
    # Rising, as each version of a type must stand behind the one before.
    latest = max((stored.defined_us for stored in versions), default=0)
    row: dict[str, Any] = {
        "primary": pa.array([max(clock.now_ns() // 1000, latest + 1)], pa.int64()),
        "key": pa.array([wanted.name.encode()], pa.binary()),
        "payload": pa.array([wanted.avro_text.encode()], pa.binary()),
        "version": pa.array([wanted.version], pa.uint16()),
    }
    streams.types.append_batch(pa.RecordBatch.from_pydict(row))  # 4
    streams.types.commit()
    streams.retain(wanted.name, ttl_s)  # 5
    streams.refresh_types()
    return streams.stored_types.type_of(wanted.name, wanted.version), True
