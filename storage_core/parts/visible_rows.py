"""Which rows of Parquet files are visible: the one rule, as conditions that any engine can ask.

A row is visible unless it had expired when it came, lies below its shard's floor or cut, or in a
gap that was accepted as lost. The rule is a list of clauses, all of which hold for a visible row; a
clause holds where one of its comparisons does. They become SQL, or a condition on anything that
Python's operators compare: a mask of numpy's arrays, a condition on Spark's columns.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, ge, lt, ne, or_
from typing import Any, Final, NamedTuple

from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.record import State

# The columns that the rule compares.
COMPARED_COLUMNS: Final = ("shard", "primary", "address", "state")
_OPERATORS: Final = {"<": lt, ">=": ge, "<>": ne}


class Comparison(NamedTuple):
    """A column beside a number; the operator is one of `<`, `>=` and `<>`."""

    column: str
    operator: str
    value: int


Clause = tuple[Comparison, ...]
# Holds for rows that had not expired when they came; the others are hidden wherever they lie.
NOT_EXPIRED: Final[Clause] = (Comparison("state", "<>", State.EXPIRED),)


def visible_rows(shards: Mapping[int, ShardParts]) -> tuple[Clause, ...]:
    """Return the clauses that hold for each visible row of some shards, and for no other row."""
    lowest_floor = min((parts.floor for parts in shards.values()), default=INT64_MIN)
    clauses: list[Clause] = [
        NOT_EXPIRED,
        (Comparison("primary", ">=", lowest_floor),),
    ]
    for shard, parts in shards.items():
        elsewhere = Comparison("shard", "<>", shard)
        if parts.floor > lowest_floor:
            clauses.append((elsewhere, Comparison("primary", ">=", parts.floor)))
        if parts.cut > 0:
            clauses.append((elsewhere, Comparison("address", ">=", parts.cut)))
        for gap in parts.gaps:
            below, above = ("address", "<", gap.start), ("address", ">=", gap.end)
            clauses.append((elsewhere, Comparison(*below), Comparison(*above)))
    return tuple(clauses)


def may_hide_rows(part: PartEntry, parts: ShardParts) -> bool:
    """Tell whether a part may have rows that are not visible; else no column is compared."""
    if part.is_out_of_order or part.primary_min < parts.floor or part.first < parts.cut:
        return True
    return any(gap.overlaps(part.first, part.last + 1) for gap in parts.gaps)


def as_sql(clauses: Sequence[Clause]) -> str:
    """Return clauses as a condition of SQL."""
    any_of = (" OR ".join(f'"{name}" {sign} {value}' for name, sign, value in c) for c in clauses)
    return " AND ".join(f"({condition})" for condition in any_of)


def as_condition(clauses: Sequence[Clause], column: Callable[[str], Any]) -> Any:  # noqa: ANN401
    """Return clauses as a condition on columns; `column` returns that of a name."""
    any_of = (
        reduce(or_, (_OPERATORS[sign](column(name), value) for name, sign, value in clause))
        for clause in clauses
    )
    return reduce(and_, any_of)
