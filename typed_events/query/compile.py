r"""Conditions as SQL, with two values: a row satisfies one, or it does not.

SQL has a third, unknown, wherever something is null. WHERE takes unknown for false, and so do AND
and OR. So NOT is pushed down to the comparisons, where the opposite is taken of rows that are null,
too:

    status = "x"                  "status" = 'x'
    NOT status = "x"              "status" IS NULL OR NOT "status" = 'x'
    NOT (a = 1 AND b = 2)         NOT a = 1 OR NOT b = 2, each as above
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, assert_never

from typed_events.errors import CommandError
from typed_events.language.commands import Position
from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    Field,
    InList,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Value,
)
from typed_events.query.literals import INT64_MAX, compared, listed, point_of
from typed_events.query.operands import Operand, blob, literal

# Returns the column of a field; raises CommandError if there is none.
Resolve = Callable[[Field], Operand]
_TEXTS: Final = ("string", "uuid", "context", "type", "position")
_INT32_MAX: Final = 2**31 - 1
# So many values are terms, which parts are skipped by; more are a list.
_LISTED_MAX: Final = 64


def condition(expression: Expression, resolve: Resolve, *, is_negated: bool = False) -> str:
    """Return an expression as a condition of SQL that is true just for the rows that satisfy it.

    Raises:
        CommandError: A field is unknown, or a literal does not fit it.
    """
    if isinstance(expression, Not):
        return condition(expression.term, resolve, is_negated=not is_negated)
    if isinstance(expression, And | Or):
        joint = " OR " if isinstance(expression, Or) != is_negated else " AND "
        terms = [condition(term, resolve, is_negated=is_negated) for term in expression.terms]
        return f"({joint.join(terms)})"
    operand = resolve(expression.field)
    null = f"{_null_of(operand)} IS NULL"
    if isinstance(expression, IsNull):
        return f"NOT ({null})" if is_negated else f"({null})"
    if isinstance(expression, Comparison):
        is_negated ^= expression.operator == "!="
        holds = _comparison(operand, expression.operator, expression.value)
    elif isinstance(expression, InList):
        holds = _one_of(operand, expression.values)
    elif isinstance(expression, Like):
        holds = _like(operand, expression.pattern)
    else:
        assert_never(expression)
    return f"({null} OR NOT ({holds}))" if is_negated else f"(NOT ({null}) AND ({holds}))"


def bound(operand: Operand, operator: Operator, value: Value) -> str:
    """Return the condition that a column compares with a literal."""
    return f"(NOT ({_null_of(operand)} IS NULL) AND ({_comparison(operand, operator, value)}))"


def fields_in(expression: Expression) -> Iterator[Field]:
    """Yield the fields that an expression names."""
    if isinstance(expression, Not):
        yield from fields_in(expression.term)
    elif isinstance(expression, And | Or):
        for term in expression.terms:
            yield from fields_in(term)
    else:
        yield expression.field


def conjuncts(expression: Expression | None) -> Iterator[Expression]:
    """Yield the terms that all must hold."""
    if isinstance(expression, And):
        for term in expression.terms:
            yield from conjuncts(term)
    elif expression is not None:
        yield expression


def owners_of(context: str, *, has_keys: bool) -> tuple[bytes, ...] | tuple[int, ...]:
    """Return the keys, or the ids, that a context is the text of."""
    if not has_keys:
        digits = context.removeprefix("-")
        is_id = digits.isascii() and digits.isdigit() and len(digits) <= len(str(_INT32_MAX))
        is_id = is_id and str(int(context)) == context and int(context) + 1 >= -_INT32_MAX
        return (int(context),) if is_id and int(context) <= _INT32_MAX else ()
    try:
        keys = [context.encode()]
    except UnicodeEncodeError as error:
        message = "a context has half of a surrogate pair"
        raise CommandError(message) from error
    if context.startswith("0x"):
        # A key that is no text is written so.
        try:
            key = bytes.fromhex(context[2:])
        except ValueError:
            return tuple(keys)
        if key.hex() == context[2:] and not _is_text(key):
            keys.append(key)
    return tuple(keys)


def of_context(operand: Operand, context: str) -> str:
    """Return the condition that a row is of a context, by the column that rows are found by."""
    side = operand.side
    owners = owners_of(context, has_keys=side.has_keys)
    column = side.column("key" if side.has_keys else "secondary")
    terms = [
        f"{column} = {blob(owner) if isinstance(owner, bytes) else f'({owner})'}"
        for owner in owners
    ]
    return " OR ".join(terms) or "FALSE"


def position_of(operand: Operand, value: Value) -> Position:
    """Return a literal that is a position."""
    point_of(operand, value)
    shard, _, address = str(value).partition(":")
    if not all(
        digits.isascii() and digits.isdigit() and len(digits) < len(str(INT64_MAX))
        for digits in (shard, address)
    ):
        message = f'{operand.name} is a position: write it as "0:41", not "{str(value)[:40]}"'
        raise CommandError(message)
    return Position(int(shard), int(address))


def behind(operand: Operand, operator: Operator, position: Position) -> str:
    """Return the condition that a row lies before or behind a position."""
    side = operand.side
    shard, address = side.column("shard"), side.column("address")
    if operator in ("=", "!="):
        return f"({shard} = {position.shard} AND {address} = {position.address})"
    strict = operator[0]
    return (
        f"({shard} {strict} {position.shard} OR "
        f"({shard} = {position.shard} AND {address} {operator} {position.address}))"
    )


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _null_of(operand: Operand) -> str:
    """Return what is null where a column is; the columns of the stream are cheaper than texts."""
    side = operand.side
    if operand.kind == "context":
        return side.column("key" if side.has_keys else "secondary")
    if operand.kind == "time" and side.unit != "sequence":
        return side.column("primary")
    return side.column("address") if operand.kind in ("type", "position") else operand.sql


def _comparison(operand: Operand, operator: Operator, value: Value) -> str:
    """Return a comparison for rows in which the column is not null; `!=` is as `=`."""
    if operand.kind in ("bool", "type") and operator not in ("=", "!="):
        message = f"{operand.name} has no order: compare it by = or !=, not {operator}"
        raise CommandError(message)
    if operand.kind == "position":
        return behind(operand, operator, position_of(operand, value))
    if operand.kind == "time" and operand.side.unit == "sequence":
        return "FALSE"
    point = point_of(operand, value)
    if operand.kind == "context" and operator in ("=", "!="):
        return of_context(operand, str(value))
    column = operand.side.column("primary") if operand.kind == "time" else operand.sql
    return compared(column, operator, point)


def _one_of(operand: Operand, values: Sequence[Value]) -> str:
    """Return the condition that a column, which is not null, has one of some values."""
    terms = dict.fromkeys(_comparison(operand, "=", value) for value in values)
    terms.pop("FALSE", None)
    if len(terms) <= _LISTED_MAX:
        return " OR ".join(terms) or "FALSE"
    # NOTE: DuckDB (2.0) takes time by the square of terms, and of constants behind IN.
    points = [point_of(operand, value) for value in values]
    if operand.kind == "position":
        texts = [str(position_of(operand, value)) for value in values]
        return f"{operand.sql} IN ({listed('string', texts)})"
    column = operand.side.column("primary") if operand.kind == "time" else operand.sql
    exact = [point.value for point in points if point.sql is not None and not point.beside]
    return f"{column} IN ({listed(operand.kind, exact)})"


def _like(operand: Operand, pattern: str) -> str:
    if operand.kind not in _TEXTS:
        message = f"{operand.name} is no text: LIKE takes fields that are strings"
        raise CommandError(message)
    return f"{operand.sql} LIKE {literal(_escaped(pattern))} ESCAPE '\\'"


def _escaped(pattern: str) -> str:
    r"""Return a pattern in which each backslash before another character than % or _ is doubled."""
    parts = []
    place = 0
    while place < len(pattern):
        character, following = pattern[place], pattern[place + 1 : place + 2]
        if character == "\\" and following in ("%", "_"):
            parts.append(character + following)
            place += 2
            continue
        parts.append("\\\\" if character == "\\" else character)
        place += 1
    return "".join(parts)
