"""What is handed to the writer: events that are encoded, in units that are stored whole or not.

Who submits makes the values and waits; the writer fills in the outcome, then ends the wait.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from storage_core import SchemaEntry
from typed_events.language.commands import Expect, Position


class Place(NamedTuple):
    """A shard of the stream of a type."""

    event_type: str
    shard: int


NOWHERE: Final = Place("", 0)


@dataclass(slots=True)
class Row:
    """An event, or a row of state, on its way to its place.

    Attributes:
        event_type: Its type.
        key: The context, as bytes.
        version: The version of its type.
        schema: The schema of that; None where there is no payload.
        payload: Its body, behind a frame; None deletes a row of state.
        expect: How many events the context has before it.
        idempotency_key: The same again is answered with the first position.
        digest: What tells its payload from another under the same key.
        state_id: Which row of the context's state it is; None for an event.
        place: Where it goes, once the writer knows.
    """

    event_type: str
    key: bytes
    version: int
    schema: SchemaEntry | None
    payload: bytes | None
    expect: Expect = "any"
    idempotency_key: bytes | None = None
    digest: bytes = b""
    state_id: bytes | None = None
    place: Place = NOWHERE


@dataclass(slots=True)
class Unit:
    """Events of one context: all are stored, or none.

    Attributes:
        rows: The events, in order.
        positions: Where they are, once they are stored.
        error: Why they are not.
    """

    rows: Sequence[Row]
    positions: Sequence[Position] = ()
    error: BaseException | None = None


class Ending:
    """Tells one thread, at most, that another has ended what it waits for.

    A `threading.Event` does so for any number, and takes longer to make than an event to encode.
    """

    __slots__ = ("_has_come", "_lock")

    def __init__(self) -> None:
        """Begin with what is under way."""
        self._lock = threading.Lock()
        self._lock.acquire()
        self._has_come = False

    def is_set(self) -> bool:
        """Tell whether it has come."""
        return self._has_come

    def set(self) -> None:
        """Let it come; again is fine, by the same thread."""
        if not self._has_come:
            self._has_come = True
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait for it so long at most; return whether it has come."""
        return self._has_come or self._lock.acquire(timeout=seconds) or self._has_come


@dataclass(slots=True)
class Submission:
    """Units whose outcome somebody waits for.

    Attributes:
        units: In their order.
        events: How many events they have.
        size: How many bytes of payloads and contexts.
        ended: Called behind that, by the writer's thread; it must neither wait nor fail.
        done: Set once each unit has its positions or an error.
    """

    units: Sequence[Unit]
    events: int = 0
    size: int = 0
    ended: Callable[[], object] | None = None
    done: Ending = field(default_factory=Ending)

    def __post_init__(self) -> None:
        """Count the events."""
        events = size = 0
        for unit in self.units:
            rows = unit.rows
            events += len(rows)
            for row in rows:
                size += len(row.key)
                if row.payload is not None:
                    size += len(row.payload)
        self.events, self.size = events, size

    def fail(self, error: BaseException) -> None:
        """End it with an error for each unit that has none."""
        for unit in self.units:
            unit.error = unit.error or error
            unit.positions = ()
        self.end()

    def end(self) -> None:
        """Tell who waits."""
        self.done.set()
        if self.ended is not None:
            self.ended()
