"""Which rows of Parquet files are visible: the one rule, as a condition that any engine can ask.

A row is visible unless it had expired when it came, lies below its shard's floor or cut, or in a
gap that was accepted as lost. The rule becomes SQL, or a condition on anything that Python's
operators compare: a mask of numpy's arrays, a condition on Spark's columns.

What differs by shard and by gap is a decision tree, not a list: engines plan a list of a thousand
conditions in seconds, one of three thousand in a minute, and ask all of them of each row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, ge, lt, ne, or_
from typing import Any, Final, NamedTuple

from storage_core.format.keys import INT64_MIN
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.record import State
from storage_core.format.shard_state import AddressRange

# The columns that the rule compares.
COMPARED_COLUMNS: Final = ("shard", "primary", "address", "state")
_OPERATORS: Final = {"<": lt, ">=": ge, "<>": ne}


class Comparison(NamedTuple):
    """A column beside a number; the operator is one of `<`, `>=` and `<>`."""

    column: str
    operator: str
    value: int


class AllOf(NamedTuple):
    """Holds where all of its rules do."""

    rules: "tuple[Rule, ...]"


class AnyOf(NamedTuple):
    """Holds where one of its rules does."""

    rules: "tuple[Rule, ...]"


class Split(NamedTuple):
    """Holds where `below` does for a column's values below a number, and `above` for the others."""

    column: str
    boundary: int
    below: "Rule"
    above: "Rule"


Rule = Comparison | AllOf | AnyOf | Split
# Holds for rows that had not expired when they came; the others are hidden wherever they lie.
NOT_EXPIRED: Final = Comparison("state", "<>", State.EXPIRED)


def visible_rows(shards: Mapping[int, ShardParts]) -> Rule:
    """Return the rule that holds for each visible row of some shards, and for no other row."""
    lowest_floor = min((parts.floor for parts in shards.values()), default=INT64_MIN)
    rules: list[Rule] = [NOT_EXPIRED, Comparison("primary", ">=", lowest_floor)]
    by_shard = []
    for shard, parts in sorted(shards.items()):
        of_shard = tuple(_of_shard(parts, lowest_floor))
        if of_shard:
            elsewhere = Comparison("shard", "<>", shard)
            by_shard.append((shard, AnyOf((elsewhere, AllOf(of_shard)))))
    if by_shard:
        rules.append(_tree("shard", by_shard))
    return AllOf(tuple(rules))


def _of_shard(parts: ShardParts, lowest_floor: int) -> Iterable[Rule]:
    """Yield what hides rows of one shard beside what hides those of all."""
    if parts.floor > lowest_floor:
        yield Comparison("primary", ">=", parts.floor)
    if parts.cut > 0:
        yield Comparison("address", ">=", parts.cut)
    choices = []
    for gap in _apart(parts.gaps):
        below, above = ("address", "<", gap.start), ("address", ">=", gap.end)
        choices.append((gap.start, AnyOf((Comparison(*below), Comparison(*above)))))
    if choices:
        yield _tree("address", choices)


def _apart(gaps: Iterable[AddressRange]) -> list[AddressRange]:
    """Return ranges in their order, those that touch as one."""
    apart: list[AddressRange] = []
    for gap in sorted(gaps, key=lambda gap: gap.start):
        if apart and gap.start <= apart[-1].end:
            apart[-1] = AddressRange(apart[-1].start, max(apart[-1].end, gap.end))
        else:
            apart.append(gap)
    return apart


def _tree(column: str, choices: Sequence[tuple[int, Rule]]) -> Rule:
    """Return the rule of the last choice at or below a column's value; of the first below it."""
    if len(choices) == 1:
        return choices[0][1]
    middle = len(choices) // 2
    boundary, _ = choices[middle]
    return Split(column, boundary, _tree(column, choices[:middle]), _tree(column, choices[middle:]))


def may_hide_rows(part: PartEntry, parts: ShardParts) -> bool:
    """Tell whether a part may have rows that are not visible; else no column is compared."""
    if part.is_out_of_order or part.primary_min < parts.floor or part.first < parts.cut:
        return True
    return any(gap.overlaps(part.first, part.last + 1) for gap in parts.gaps)


def as_sql(rule: Rule) -> str:
    """Return a rule as a condition of SQL."""
    match rule:
        case Comparison(column, sign, value):
            return f'"{column}" {sign} {value}'
        case AllOf(rules):
            return " AND ".join(f"({as_sql(each)})" for each in rules)
        case AnyOf(rules):
            return " OR ".join(f"({as_sql(each)})" for each in rules)
        case Split(column, boundary, below, above):
            return (
                f'CASE WHEN "{column}" < {boundary} THEN {as_sql(below)} ELSE {as_sql(above)} END'
            )


def as_condition(rule: Rule, column: Callable[[str], Any]) -> Any:  # noqa: ANN401
    """Return a rule as a condition on columns; `column` returns that of a name."""
    match rule:
        case Comparison(name, sign, value):
            return _OPERATORS[sign](column(name), value)
        case AllOf(rules):
            return reduce(and_, (as_condition(each, column) for each in rules))
        case AnyOf(rules):
            return reduce(or_, (as_condition(each, column) for each in rules))
        case Split(name, boundary, below, above):
            is_below, is_above = (_OPERATORS[sign](column(name), boundary) for sign in ("<", ">="))
            of_below = is_below & as_condition(below, column)
            return of_below | (is_above & as_condition(above, column))
