"""What a subscriber wants, its columns, and the rows that are wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa

from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.language.expressions import Expression
from typed_events.query.compile import condition, of_context
from typed_events.query.fields import TypeFields
from typed_events.query.operands import CORE, Side, single
from typed_events.query.replays import PAYLOAD
from typed_events.query.rows import returned_columns
from typed_events.query.selecting import Column
from typed_events.query.state_rows import state_columns
from typed_events.subscriptions.frames import Frame
from typed_events.subscriptions.proofs import Proofs

ALIAS: Final = "e0"
DELETED: Final = "deleted"


@dataclass(frozen=True)
class Wanted:
    """What a subscriber wants.

    Attributes:
        context: Only its events.
        where: What must hold.
        is_of_all: Whether it subscribes to all types: fields come as JSON then, and a type that the
            condition does not fit has no events for it.
    """

    context: str | None
    where: Expression | None
    is_of_all: bool

    @cached_property
    def mark(self) -> str:
        """What is equal for those that want the same; `1` and `true` are not."""
        return repr(self)


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows that a subscriber wants; all who want the same have it together.

    Attributes:
        batch: The rows.
        addresses: The address of each.
        size: About how many bytes they take.
        proofs: What proves the place behind each; of more rows than these, perhaps.
        made: What somebody made of the rows, by what it is, for all.
        frames: Those of the rows, once they are made, for who follows one shard alone. Frames
            refer to `made`, so they lie beside it: in it, they would not go before the collector
            comes by, which is rare.
    """

    batch: pa.RecordBatch
    addresses: Sequence[int]
    size: int
    proofs: Proofs
    made: dict[str, object] = field(default_factory=dict)
    frames: list[Sequence[Frame]] = field(default_factory=list)

    def behind(self, address: int) -> "WantedRows":
        """Return the rows from an address on."""
        left = sum(at < address for at in self.addresses)
        if not left:
            return self
        return WantedRows(self.batch.slice(left), self.addresses[left:], self.size, self.proofs)


def side_of(name: str, snapshot: PooledSnapshot | None, types: Mapping[str, TypeFields]) -> Side:
    """Return the columns of a type, or of any other stream."""
    fields = types.get(name)
    defined = None if fields is None else fields.of_all_versions
    return Side(snapshot, name, ALIAS, defined, state_columns(fields, is_live=False))


def condition_of(wanted: Wanted, side: Side) -> str | None:
    """Return the condition of what is wanted in SQL; None where all rows are.

    That a row of state is deleted is told whatever WHERE says: the row may have satisfied it.

    Raises:
        CommandError: A name is unknown, or a literal does not fit its field.
    """
    terms = []
    if wanted.context is not None:
        terms.append(f"({of_context(side.core['context_id'], wanted.context)})")
    if wanted.where is not None:
        where = condition(wanted.where, lambda field: single(side, field))
        deleted = side.core.get(DELETED)
        terms.append(where if deleted is None else f"(({where}) OR {deleted.sql})")
    return " AND ".join(terms) or None


def schema_of(side: Side, *, is_of_all: bool) -> pa.Schema:
    """Return the columns that a subscriber gets."""
    columns = returned_columns(side, None)
    if is_of_all:  # of events alone
        columns = [*columns[: len(CORE)], Column(PAYLOAD, PAYLOAD, pa.string())]
    return pa.schema([pa.field(column.name, column.type) for column in columns])
