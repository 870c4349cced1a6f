"""EXPLAIN QUERY: how a query was read, in steps, and what of the store it skipped.

The query is run, so that the figures are those of its own reads. DuckDB tells of each file list
how many row groups it had and how many it scanned.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.answer import Answer
from typed_events.language.commands import Query
from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    Field,
    InList,
    IsNull,
    Like,
    Not,
    Value,
)
from typed_events.types.event_type import ttl_text

_SCHEMA: Final = pa.schema([("step", pa.string()), ("detail", pa.string())])
_GROUPS: Final = re.compile(r"Row Groups Scanned:\s*([0-9]+)\s*/\s*([0-9]+)")
_BOX: Final = re.compile(r"[│\s]+")
_SHOWN_MAX: Final = 20


def explained(
    query: Query,
    snapshots: Mapping[str, PooledSnapshot],
    drawing: str,
    ttls: Mapping[str, int | None],
) -> Answer:
    """Return the steps of a query.

    Args:
        query: The query.
        snapshots: The snapshots that it was of.
        drawing: What DuckDB drew of it.
        ttls: How long rows of state live, by type; None for events.
    """
    steps = list(_steps(query, snapshots, _BOX.sub(" ", drawing), ttls))
    columns = [pa.array([one[place] for one in steps], pa.string()) for place in (0, 1)]
    batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
    return Answer(schema=_SCHEMA, batches=iter([batch]))


def _steps(
    query: Query,
    snapshots: Mapping[str, PooledSnapshot],
    drawing: str,
    ttls: Mapping[str, int | None],
) -> Iterator[tuple[str, str]]:
    names = [query.event_type, *([query.sequence.other] if query.sequence else [])]
    yield "types", " and ".join(names)
    if query.context is None:
        yield "access", "all parts and all hot rows"
    else:
        yield "access", f"parts by context {query.context}, and the hot rows of it alone"
    for name in names:
        if (ttl_s := ttls.get(name)) is not None:
            yield f"state of {name}", f"the newest row of each id, within TTL {ttl_text(ttl_s)}"
    if query.since is not None or query.until is not None:
        yield "time", _bounds(query)
    if query.after is not None:
        yield "after", f"events behind position {query.after}"
    if query.where is not None:
        yield "condition", written(query.where)
    for name in names:
        snapshot = snapshots.get(name)
        if snapshot is None:
            yield f"hot rows of {name}", "none: nothing was stored of it"
            continue
        yield f"parts of {name}", f"{len(snapshot.parts)} with {_rows_of(snapshot)} rows"
        yield f"hot rows of {name}", f"{snapshot.hot_rows} read"
    groups = [(int(read), int(of)) for read, of in _GROUPS.findall(drawing)]
    scanned, total = sum(read for read, _ in groups), sum(of for _, of in groups)
    yield "row groups", f"{scanned} read, {total - scanned} skipped"


def _rows_of(snapshot: PooledSnapshot) -> int:
    return sum(part.entry.rows for part in snapshot.parts)


def _bounds(query: Query) -> str:
    since = "" if query.since is None else f" from {query.since}"
    until = "" if query.until is None else f" to before {query.until}"
    return f"{query.time_field or 'timestamp'}{since}{until}"


def written(expression: Expression) -> str:
    """Return a condition as the language writes it."""
    if isinstance(expression, Not):
        return f"NOT {_inner(expression.term)}"
    if isinstance(expression, Comparison):
        return f"{_name(expression.field)} {expression.operator} {_value(expression.value)}"
    if isinstance(expression, InList):
        values = ", ".join(map(_value, expression.values[:_SHOWN_MAX]))
        more = len(expression.values) - _SHOWN_MAX
        return f"{_name(expression.field)} IN ({values}{f', and {more} more' if more > 0 else ''})"
    if isinstance(expression, Like):
        return f"{_name(expression.field)} LIKE {_value(expression.pattern)}"
    if isinstance(expression, IsNull):
        return f"{_name(expression.field)} IS NULL"
    joint = " AND " if isinstance(expression, And) else " OR "
    return joint.join(map(_inner, expression.terms))


def _inner(expression: Expression) -> str:
    is_atom = isinstance(expression, Comparison | InList | Like | IsNull)
    return written(expression) if is_atom else f"({written(expression)})"


def _name(field: Field) -> str:
    return field.name if field.event_type is None else f"{field.event_type}.{field.name}"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
