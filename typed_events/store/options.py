"""How a store of events is kept."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from storage_core import InvalidRequestError, StreamOptions

# Primaries rise over the whole store, so none is too far ahead: one would make others late.
_AHEAD_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EventStoreOptions:
    """How a store of events is kept.

    Attributes:
        shards: How many shards the stream of a new type has, a power of two.
        retention: How long events of a new type are kept; None for good.
        wait_max: How long a command waits for its turn before it is refused as Busy, and then for
            the disk before it is answered that its outcome is open.
        idempotency_window: How long an idempotency key is remembered at least; at most twice as
            long. A store that is opened with another window has forgotten the keys before.
        queue_events_max: How many events wait for the writer at most.
        queue_bytes_max: How many bytes of them do.
        group_events_max: After how many events a group is committed.
        contexts_cached: For how many contexts of a type the number of events is kept in memory.
        remembered_rows_max: How many rows SHOW answers with at most, the newest; None for all.
        remembered_age_max: Since when they were stored; None for all.
    """

    shards: int = 1
    retention: timedelta | None = None
    wait_max: timedelta = timedelta(seconds=10)
    idempotency_window: timedelta = timedelta(days=1)
    queue_events_max: int = 100_000
    queue_bytes_max: int = 64 * 2**20
    group_events_max: int = 10_000
    contexts_cached: int = 200_000
    remembered_rows_max: int | None = None
    remembered_age_max: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        for name in ("queue_events_max", "queue_bytes_max", "group_events_max", "contexts_cached"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                message = f"{name}: {value!r} is not an integer above 0"
                raise InvalidRequestError(message)
        if self.idempotency_window < timedelta(seconds=1):
            message = f"idempotency_window: {self.idempotency_window} is below one second"
            raise InvalidRequestError(message)
        rows, age = self.remembered_rows_max, self.remembered_age_max
        if rows is not None and (type(rows) is not int or rows < 1):
            message = f"remembered_rows_max: {rows!r} is not an integer above 0"
            raise InvalidRequestError(message)
        if age is not None and age <= timedelta():
            message = f"remembered_age_max: {age} is not above 0"
            raise InvalidRequestError(message)
        self.of_events()

    @property
    def wait_max_s(self) -> float:
        """How long a command waits, in seconds."""
        return self.wait_max.total_seconds()

    def of_events(self) -> StreamOptions:
        """Return the options of the stream of a new type."""
        return StreamOptions(
            shards=self.shards,
            unit="us",
            retention=self.retention,
            ahead_max=_AHEAD_MAX,
            wait_max=self.wait_max,
            key_mode="dictionary",
        )

    def of_state(self, ttl_s: int) -> StreamOptions:
        """Return the options of the stream of a new type of state; its windows follow the TTL."""
        return replace(self.of_events(), retention=timedelta(seconds=ttl_s), never_cold=True)

    def of_type(self, ttl_s: int | None) -> StreamOptions:
        """Return the options of the stream of a new type, of state if its rows have a TTL."""
        return self.of_events() if ttl_s is None else self.of_state(ttl_s)

    def of_journal(self) -> StreamOptions:
        """Return the options of the stream of batches over several types."""
        return StreamOptions(
            shards=1,
            unit="sequence",
            records_max=64,
            payload_bytes_max=2**30,
            wait_max=self.wait_max,
            never_cold=True,
        )

    def of_types(self) -> StreamOptions:
        """Return the options of the stream of types."""
        return StreamOptions(
            shards=1,
            unit="us",
            ahead_max=_AHEAD_MAX,
            wait_max=self.wait_max,
            key_mode="dictionary",
            never_cold=True,
        )
