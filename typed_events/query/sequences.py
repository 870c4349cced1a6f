"""QUERY of a sequence: each event a with the nearest event b of the same link, as one row.

    a FOLLOWED BY b     the earliest b at or after a; of equals the first by position
    a PRECEDED BY b     the latest b strictly before a; of equals the last by position

Conditions that name one type filter its events before pairs are made; those over both filter pairs.
SINCE, UNTIL and FOR hold of both events. An event without a link or a time is in no pair.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from typed_events.errors import CommandError
from typed_events.language.commands import Query
from typed_events.language.commands import Sequence as Pairing
from typed_events.language.expressions import Expression, Field
from typed_events.query.compile import condition, conjuncts, fields_in
from typed_events.query.figures import as_timestamp, select_figures
from typed_events.query.operands import Operand, Side, single
from typed_events.query.rows import returned_columns, side_terms
from typed_events.query.selecting import (
    Column,
    Selection,
    after_terms,
    limits,
    order_by,
    selected,
    time_operand,
    where,
)

# No field is called so: their names have no space.
_LINK: Final = '"of link"'
_TIME: Final = '"of time"'
_NUMBERS: Final = ("int", "float")
_TEXTS: Final = ("string", "uuid", "context", "type", "position")


class Pair:
    """The two types of a sequence."""

    def __init__(self, first: Side, other: Side) -> None:
        """Combine the sides.

        Raises:
            CommandError: Both are one type.
        """
        if first.event_type == other.event_type:
            message = f"a sequence is of two types, and {first.event_type} is one"
            raise CommandError(message)
        self.first, self.other = first, other

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both types."""
        return self.first, self.other

    def resolve(self, field: Field) -> Operand:
        """Return the column of a field.

        Raises:
            CommandError: None or both of the types have it, or its type is neither.
        """
        for side in self.sides:
            if field.event_type == side.event_type:
                return self._named(single(side, field))
        names = [side.event_type for side in self.sides]
        if field.event_type is not None:
            message = f"{field.event_type}.{field.name}: the sequence is of {' and '.join(names)}"
            raise CommandError(message)
        operands = [operand for side in self.sides if (operand := side.find(field.name))]
        if len(operands) > 1:
            forms = " or ".join(f"{name}.{field.name}" for name in names)
            message = f"both types have {field.name}: write {forms}"
            raise CommandError(message)
        if not operands:
            raise replace_unknown(self.sides, field)
        return self._named(operands[0])

    @staticmethod
    def _named(operand: Operand) -> Operand:
        return replace(operand, name=f"{operand.side.event_type}.{operand.name}")


def replace_unknown(sides: Sequence[Side], field: Field) -> CommandError:
    """Return the error of a field that neither type has."""
    first, other = (side.unknown(field.name).message for side in sides)
    return CommandError(f"{first}; {other}")


def select_pairs(query: Query, pair: Pair, sources: Mapping[str, str]) -> Selection:
    """Return the query of pairs, or of figures of them."""
    assert query.sequence is not None
    rows = _pairs(query, query.sequence, pair, sources)
    if query.aggregates or query.by or query.per:
        if query.per is not None and query.per_field is None:
            query = replace(query, per_field=f"{pair.first.event_type}.timestamp")
        return select_figures(query, pair.resolve, rows)
    order = order_by(query.order, pair.resolve, pair.first.position)
    return selected([*_columns(query, pair)], f"{rows}{order}{limits(query)}")


def _columns(query: Query, pair: Pair) -> Iterator[Column]:
    for field in query.returned or ():
        is_known = field.event_type is None and any(side.find(field.name) for side in pair.sides)
        if is_known:
            # An ambiguous one is refused.
            pair.resolve(field)
    returned = query.returned or None
    for side in pair.sides:
        for column in returned_columns(side, returned):
            yield replace(column, name=f"{side.event_type}.{column.name}")


def _pairs(query: Query, pairing: Pairing, pair: Pair, sources: Mapping[str, str]) -> str:
    """Return FROM and WHERE of the pairs."""
    terms: dict[str, list[str]] = {side.event_type: [] for side in pair.sides}
    over_both: list[str] = []
    for term in conjuncts(query.where):
        (terms[only.event_type] if (only := _only_side(term, pair)) else over_both).append(
            condition(term, pair.resolve)
        )
    terms[pair.first.event_type] += after_terms(query, pair.first)
    links = _links(pairing, pair)
    times = _times(query, pair)
    nearest = "ASC" if pairing.is_followed else "DESC"
    inner = []
    for side, link, time in zip(pair.sides, links, times, strict=True):
        of_side = [
            f"{link} IS NOT NULL AND {time} IS NOT NULL",
            *side_terms(query, side, lambda field, side=side: single(side, field)),  # type: ignore[misc]
            *terms[side.event_type],
        ]
        source = f"({sources[side.event_type]}) AS {side.alias}"
        select = f"SELECT *, {link} AS {_LINK}, {time} AS {_TIME} FROM {source}{where(of_side)}"  # noqa: S608 - of compiled conditions
        if side is pair.other:
            # NOTE: of equal times ASOF takes any; `of link` alone would be that of the other side.
            select += (
                f" QUALIFY row_number() OVER (PARTITION BY {link}, {time} ORDER BY "
                f"{side.column('shard')} {nearest}, {side.column('address')} {nearest}) = 1"
            )
        inner.append(f"({select}) AS {side.alias}")
    a, b = pair.first.alias, pair.other.alias
    comparison = "<=" if pairing.is_followed else ">"
    return (
        f"FROM {inner[0]} ASOF JOIN {inner[1]} ON {a}.{_LINK} = {b}.{_LINK} "
        f"AND {a}.{_TIME} {comparison} {b}.{_TIME}{where(over_both)}"
    )


def _only_side(term: Expression, pair: Pair) -> Side | None:
    """Return the side whose rows alone a condition is of; None if it is of both."""
    sides = {id(side): side for side in (pair.resolve(f).side for f in fields_in(term))}
    return next(iter(sides.values())) if len(sides) == 1 else None


def _links(pairing: Pairing, pair: Pair) -> list[str]:
    """Return the link of each side in SQL."""
    operands = [single(side, Field(pairing.link)) for side in pair.sides]
    first, other = operands
    classes = {_class_of(operand) for operand in operands}
    if len(classes) > 1 or "other" in classes:
        message = (
            f"LINKED BY {pairing.link}: it is {first.type} in {first.side.event_type} and "
            f"{other.type} in {other.side.event_type}, which are never equal"
        )
        raise CommandError(message)
    if all(operand.kind == "context" and operand.side.has_keys for operand in operands):
        return [operand.side.column("key") for operand in operands]
    return [operand.sql for operand in operands]


def _class_of(operand: Operand) -> str:
    for name, kinds in (("number", _NUMBERS), ("text", _TEXTS)):
        if operand.kind in kinds:
            return name
    return "timestamp" if operand.kind == "time" else operand.kind


def _times(query: Query, pair: Pair) -> list[str]:
    """Return by what time pairs are made, for each side in SQL."""
    operands = []
    for side in pair.sides:
        if query.time_field is not None and "." in query.time_field:
            message = f"USING {query.time_field}: name a field that both types have"
            raise CommandError(message)
        operands.append(time_operand(query.time_field, lambda f, side=side: single(side, f)))  # type: ignore[misc]
    units = {operand.side.unit for operand in operands}
    if all(operand.kind == "time" for operand in operands) and len(units) == 1:
        return [operand.side.column("primary") for operand in operands]
    return [as_timestamp(operand) for operand in operands]
