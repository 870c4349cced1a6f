"""The commands, parsed.

Times are as they were written, an ISO text or a number; `times.py` reads them. A position is the
place of an event: its shard and its address there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from storage_core.platform.overriding import override
from typed_events.language.expressions import Expression, Field

Time = str | int | float
Metric = Literal["count", "count_unique", "total", "avg", "min", "max"]
Bucket = Literal["hour", "day", "week", "month", "year"]
Expect = int | Literal["any"]  # NONE is 0


# Not frozen, which costs as much again as to make one: nobody changes it.
@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """The place of an event: `2:41` is address 41 of shard 2."""

    shard: int
    address: int

    @override
    def __str__(self) -> str:
        return f"{self.shard}:{self.address}"


@dataclass(frozen=True, slots=True)
class Define:
    """DEFINE type [AS n] FIELDS {…} [AS STATE TTL 30m].

    Attributes:
        event_type: Its name.
        version: The version that was written; None makes the next.
        fields: What was written for each field: a type as `int | null`, or the values of an enum.
        ttl_s: How long a row of a state stream lives; None for events.
    """

    event_type: str
    version: int | None
    fields: Mapping[str, str | tuple[str, ...]]
    ttl_s: int | None = None


# Not frozen, which costs as much again as to read one: nobody changes it.
@dataclass(slots=True)
class Store:
    """STORE type [AS n] FOR context [ROW "id"] PAYLOAD {…} [IDEMPOTENCY "key"] [EXPECT n|NONE|ANY].

    Attributes:
        event_type: Its name.
        context: Whose event it is.
        payload: The JSON object, parsed.
        version: The version of the type that was written; None for the newest.
        idempotency_key: The same key again is answered with the first position.
        expect: How many events the context has.
        row: Which row of the context's state it is; None where none was written.
    """

    event_type: str
    context: str
    payload: Mapping[str, object]
    version: int | None = None
    idempotency_key: str | None = None
    expect: Expect = "any"
    row: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE type FOR context ROW "id" [IDEMPOTENCY "key"].

    Attributes:
        event_type: The type, of state.
        context: Whose row it is.
        row: Which; empty for the one that was stored without ROW.
        idempotency_key: The same key again is answered with the first position.
    """

    event_type: str
    context: str
    row: str
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """BATCH [ STORE …; DELETE …; ]: all or none of each context."""

    stores: tuple[Store | Delete, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A figure of a group: COUNT, COUNT f, COUNT UNIQUE f, TOTAL f, AVG f, MIN f, MAX f."""

    metric: Metric
    field: Field | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """ORDER BY f [DESC]."""

    field: Field
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """a FOLLOWED BY b LINKED BY f; PRECEDED BY.

    Attributes:
        other: The type b.
        is_followed: Whether b comes at or after a; else strictly before.
        link: The field that both have, with the same value.
    """

    other: str
    is_followed: bool
    link: str


@dataclass(frozen=True, slots=True)
class Query:
    """QUERY: events of a type, or figures of them.

    Attributes:
        event_type: The type.
        context: Only its events.
        since: The first time, inclusive.
        until: The first time that is not wanted.
        time_field: The field whose time counts in both; None for when an event was stored.
        returned: The fields of the answer; None, and an empty list, for all.
        where: What must hold.
        order: The order of the answer.
        limit: At most so many rows, or groups, or pairs; 0 gives none.
        offset: So many of them are left out first.
        after: Only events behind this position.
        aggregates: The figures; empty for events.
        by: The fields of a group.
        per: How long a time of a group is.
        per_field: The field whose time that is; None for when an event was stored.
        sequence: The second type of a sequence.
    """

    event_type: str
    context: str | None = None
    since: Time | None = None
    until: Time | None = None
    time_field: str | None = None
    returned: tuple[Field, ...] | None = None
    where: Expression | None = None
    order: Order | None = None
    limit: int | None = None
    offset: int = 0
    after: Position | None = None
    aggregates: tuple[Aggregate, ...] = ()
    by: tuple[Field, ...] = ()
    per: Bucket | None = None
    per_field: str | None = None
    sequence: Sequence | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """REPLAY [type] FOR context [SINCE t] [RETURN […]]: a context's events as they were stored."""

    context: str
    event_type: str | None = None
    since: Time | None = None
    returned: tuple[Field, ...] | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """REMEMBER QUERY … AS name; `text` is the query as it was written."""

    query: Query
    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW name; without one the names are told."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Forget:
    """FORGET name."""

    name: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE type|* [FOR context] [WHERE expr] [FROM position|START|NOW].

    Attributes:
        event_type: The type; None for all.
        context: Only its events.
        where: What must hold.
        start: `start`, `now`, or the positions to go on from, by type and shard: the text of a
            checkpoint, or of a position.
    """

    event_type: str | None
    context: str | None = None
    where: Expression | None = None
    start: str = "now"


@dataclass(frozen=True, slots=True)
class Plot:
    """PLOT metric OF type [BY f] [OVER hour|day|…]: the page draws the rows of this query."""

    query: Query


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN QUERY …, EXPLAIN PLOT …: how it would be read, and what of the store it skips."""

    query: Query


@dataclass(frozen=True, slots=True)
class Flush:
    """FLUSH: all that was stored so far is durable."""


@dataclass(frozen=True, slots=True)
class Ping:
    """PING."""


@dataclass(frozen=True, slots=True)
class ListTypes:
    """LIST TYPES."""


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE type: its versions and fields."""

    event_type: str


Command = (
    Define
    | Store
    | Batch
    | Query
    | Replay
    | Remember
    | Show
    | Forget
    | Subscribe
    | Plot
    | Delete
    | Explain
    | Flush
    | Ping
    | ListTypes
    | Describe
)
