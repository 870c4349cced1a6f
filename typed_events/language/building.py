"""What the grammar's rules make: a method a rule, from the tokens up to the command.

Called by the parser, from the leaves up, so nothing here recurses. What is refused here is raised
as `Misread` with its place in the text; parse.py makes a line of it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from lark import Token, Transformer, v_args

from typed_events.language import commands
from typed_events.language.checkpoint_text import CHECKPOINT
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
from typed_events.language.literals import (
    number_of,
    remembered_name,
    short_text,
    text_of,
    type_name,
    whole_number,
    why_no_json,
)
from typed_events.language.misread import Misread, start_of

NESTING_MAX: Final = 100
_VERSION_MAX: Final = 2**16 - 1
_TTL_MAX_S: Final = 3650 * 86_400
_CONSTANTS: Final = {"JSON_TRUE": True, "JSON_FALSE": False, "JSON_NULL": None}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhdw])\Z", re.IGNORECASE)
_PLACE: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,18})\Z")


class _Term(NamedTuple):
    """A condition, and how deep it nests."""

    expression: Expression
    depth: int = 0


class _Clause(NamedTuple):
    """A clause: the word it begins with, and what it sets."""

    word: Token
    values: dict[str, Any]


class _RowId(NamedTuple):
    """What is written behind ROW."""

    text: str


class LocatedQuery(NamedTuple):
    """A query, and where its text begins."""

    query: commands.Query
    start: int


@dataclass(frozen=True, slots=True)
class _Refused:
    """A value that a payload cannot have, until the field's name is known."""

    reason: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A query to remember, and where its text ends."""

    query: commands.Query
    name: str
    start: int
    end: int


@v_args(inline=True)
class Builder(Transformer[Token, Any]):
    """Makes commands of what the parser found."""

    # What stands in many commands.

    def type(self, token: Token) -> str:
        return type_name(token)

    def field(self, token: Token) -> Field:
        name = text_of(token)
        if token.type == "FIELD" and "." in name:
            event_type, _, name = name.rpartition(".")
            if not (event_type and name):
                raise Misread(token, f'"{token}" is no field: write type.field')
            return Field(name, event_type)
        return Field(name)

    def name(self, token: Token) -> str:
        return remembered_name(token)

    def context(self, token: Token) -> str:
        return short_text(token, "a context")

    def version(self, token: Token) -> int:
        return whole_number(token, 1, _VERSION_MAX)

    def time(self, token: Token) -> commands.Time:
        return number_of(token) if token.type == "NUMBER" else text_of(token)

    def value(self, token: Token) -> Value:
        if token.type == "NUMBER":
            return number_of(token)
        if token.type in {"TRUE", "FALSE"}:
            return token.type == "TRUE"
        if token.type == "WORD" and token.lower() == "null":
            raise Misread(token, "no value equals null: write IS NULL, or IS NOT NULL")
        return text_of(token)

    # DEFINE

    def define(self, event_type: str, *parts: Any) -> commands.Define:
        version = parts[1] if isinstance(parts[0], Token) else None
        ttl_s = parts[-1] if isinstance(parts[-1], int) else None
        fields: dict[str, str | tuple[str, ...]] = {}
        for part in parts:
            if not isinstance(part, tuple):
                continue
            token, written = part
            name = text_of(token)
            if name in fields:
                raise Misread(token, f'field "{name}" is there twice')
            fields[name] = written
        return commands.Define(event_type, version, fields, ttl_s)

    def definition(self, key: Token, written: Token | tuple[str, ...]) -> tuple[Token, Any]:
        return key, text_of(written) if isinstance(written, Token) else written

    def enum_values(self, *tokens: Token) -> tuple[str, ...]:
        return tuple(map(text_of, tokens))

    def duration(self, token: Token) -> int:
        written = text_of(token)
        match = _DURATION.match(written)
        seconds = int(match[1]) * _SECONDS[match[2].lower()] if match else 0
        if not 1 <= seconds <= _TTL_MAX_S:
            message = f'"{written}" is no TTL: write one from 1s to 3650d, such as 30m, 12h, 7d'
            raise Misread(token, message)
        return seconds

    # STORE, BATCH

    def store(self, event_type: str, *parts: Any) -> commands.Store:
        has_version = parts[0].type == "AS"
        version = parts[1] if has_version else None
        context, *others = parts[3 if has_version else 1 :]
        row = others.pop(0).text if isinstance(others[0], _RowId) else None
        payload, *clauses = others
        return commands.Store(event_type, context, payload, version, row=row, **_joined(clauses))

    def row(self, token: Token) -> _RowId:
        # Empty is the row that was stored without ROW.
        return _RowId(short_text(token, "the id of a row") if text_of(token) else "")

    def clause_key(self, word: Token, token: Token) -> _Clause:
        return _Clause(word, {"idempotency_key": short_text(token, "an idempotency key")})

    def clause_expect(self, word: Token, token: Token) -> _Clause:
        if token.type == "ANY":
            return _Clause(word, {"expect": "any"})
        return _Clause(word, {"expect": 0 if token.type == "NONE" else whole_number(token)})

    def payload(self, *members: tuple[Token, str, object]) -> dict[str, object]:
        values: dict[str, object] = {}
        for token, name, value in members:
            if name in values:
                raise Misread(token, f'field "{name}" is there twice')
            values[name] = value
        return values

    def member(self, token: Token, value: object) -> tuple[Token, str, object]:
        name = text_of(token)
        if isinstance(value, _Refused):
            raise Misread(token, f'field "{name}": {value.reason}')
        return token, name, value

    def json(self, token: Token | _Refused) -> object:
        if isinstance(token, _Refused):
            return token
        if token.type == "BARE_JSON":
            return _Refused(why_no_json(token))
        if token.type in _CONSTANTS:
            return _CONSTANTS[token.type]
        try:
            return text_of(token) if token.type == "TEXT" else number_of(token)
        except Misread as error:
            return _Refused(error.reason)

    def nested(self, *_: object) -> _Refused:
        return _Refused("an object or a list is no value of a field: payloads are flat")

    def nested_member(self, *_: object) -> None:
        return None

    def batch(self, *stores: commands.Store | commands.Delete) -> commands.Batch:
        return commands.Batch(stores)

    # QUERY, and what asks for one

    def query(self, word: Token, event_type: str, *clauses: _Clause) -> LocatedQuery:
        return LocatedQuery(_query(event_type, clauses), start_of(word))

    def clause_for(self, word: Token, context: str) -> _Clause:
        return _Clause(word, {"context": context})

    def clause_since(self, word: Token, time: commands.Time) -> _Clause:
        return _Clause(word, {"since": time})

    def clause_until(self, word: Token, time: commands.Time) -> _Clause:
        return _Clause(word, {"until": time})

    def clause_using(self, word: Token, field: Field) -> _Clause:
        return _Clause(word, {"time_field": _unprefixed(word, field)})

    def clause_return(self, word: Token, *fields: Field) -> _Clause:
        return _Clause(word, {"returned": fields})

    def clause_where(self, word: Token, term: _Term) -> _Clause:
        return _Clause(word, {"where": term.expression})

    def clause_order(self, word: Token, _by: Token, field: Field, *way: Token) -> _Clause:
        is_descending = bool(way) and way[0].type == "DESC"
        return _Clause(word, {"order": commands.Order(field, is_descending)})

    def clause_limit(self, word: Token, token: Token) -> _Clause:
        return _Clause(word, {"limit": whole_number(token)})

    def clause_offset(self, word: Token, token: Token) -> _Clause:
        return _Clause(word, {"offset": whole_number(token)})

    def clause_after(self, word: Token, token: Token) -> _Clause:
        match = _PLACE.match(text_of(token))
        if not match:
            message = f'"{text_of(token)}" is no position: write shard:address, such as 2:41'
            raise Misread(token, message)
        return _Clause(word, {"after": commands.Position(int(match[1]), int(match[2]))})

    def clause_aggregates(self, *figures: tuple[Token, commands.Aggregate]) -> _Clause:
        return _Clause(figures[0][0], {"aggregates": tuple(figure for _, figure in figures)})

    def count(self, word: Token, *field: Field) -> tuple[Token, commands.Aggregate]:
        return word, commands.Aggregate("count", *field)

    def count_unique(self, word: Token, field: Field) -> tuple[Token, commands.Aggregate]:
        return word, commands.Aggregate("count_unique", field)

    def figure(self, word: Token, field: Field) -> tuple[Token, commands.Aggregate]:
        return word, commands.Aggregate(cast("commands.Metric", word.lower()), field)

    def clause_by(self, word: Token, *fields: Field) -> _Clause:
        return _Clause(word, {"by": fields})

    def clause_per(self, word: Token, bucket: commands.Bucket, *using: Any) -> _Clause:
        per_field = _unprefixed(using[0], using[1]) if using else None
        return _Clause(word, {"per": bucket, "per_field": per_field})

    def bucket(self, token: Token) -> str:
        return token.lower()

    def clause_sequence(self, word: Token, _by: Token, other: str, *link: Any) -> _Clause:
        field = _unprefixed(link[0], link[1])
        sequence = commands.Sequence(other, word.type == "FOLLOWED", field)
        return _Clause(word, {"sequence": sequence})

    def explain(self, question: LocatedQuery | commands.Plot) -> commands.Explain:
        return commands.Explain(question.query)

    def remember(self, located: LocatedQuery, word: Token, name: str) -> Remembered:
        return Remembered(located.query, name, located.start, start_of(word))

    def plot(self, word: Token, *parts: Any) -> commands.Plot:
        figures = tuple(part for part in parts if type(part) is tuple)
        event_type, *clauses = parts[len(figures) :]
        aggregates = _Clause(word, {"aggregates": tuple(figure for _, figure in figures)})
        return commands.Plot(_query(event_type, [aggregates, *clauses]))

    # The rest

    def replay(self, *parts: Any) -> commands.Replay:
        event_type = parts[0] if parts and isinstance(parts[0], str) else None
        set_values = _joined([part for part in parts if isinstance(part, _Clause)])
        if "context" not in set_values:
            raise Misread(None, "REPLAY needs FOR and a context")
        return commands.Replay(event_type=event_type, **set_values)

    def subscribe(self, event_type: str, *clauses: _Clause) -> commands.Subscribe:
        is_all = isinstance(event_type, Token)
        return commands.Subscribe(None if is_all else event_type, **_joined(clauses))

    def clause_from(self, word: Token, *tokens: Token) -> _Clause:
        if tokens[0].type in {"START", "NOW"}:
            return _Clause(word, {"start": tokens[0].type.lower()})
        written = ",".join(map(text_of, tokens))
        if not CHECKPOINT.match(written):
            message = (
                f'"{written}" is no place to begin at: write START, NOW, a position such as 2:41, '
                "or a checkpoint such as orders/0:12"
            )
            raise Misread(tokens[0], message)
        return _Clause(word, {"start": written})

    def delete(
        self, event_type: str, _for: Token, context: str, row: _RowId, *key: _Clause
    ) -> commands.Delete:
        return commands.Delete(event_type, context, row.text, **_joined(key))

    def show(self, name: str | None = None) -> commands.Show:
        return commands.Show(name)

    def forget(self, name: str) -> commands.Forget:
        return commands.Forget(name)

    def describe(self, event_type: str) -> commands.Describe:
        return commands.Describe(event_type)

    def flush(self) -> commands.Flush:
        return commands.Flush()

    def ping(self) -> commands.Ping:
        return commands.Ping()

    def list_types(self) -> commands.ListTypes:
        return commands.ListTypes()

    # Conditions

    def or_(self, *terms: _Term) -> _Term:
        return _several(Or, terms)

    def and_(self, *terms: _Term) -> _Term:
        return _several(And, terms)

    def not_(self, word: Token, term: _Term) -> _Term:
        return _deeper(word, Not(term.expression), term)

    def group(self, term: _Term) -> _Term:
        return _deeper(None, term.expression, term)

    def comparison(self, field: Field, operator: Token, value: Value) -> _Term:
        return _Term(Comparison(field, cast("Operator", str(operator)), value))

    def truth(self, field: Field) -> _Term:
        return _Term(Comparison(field, "=", value=True))

    def in_list(self, field: Field, *values: Value) -> _Term:
        return _Term(InList(field, values))

    def not_in_list(self, field: Field, _not: Token, *values: Value) -> _Term:
        return _Term(Not(InList(field, values)))

    def like(self, field: Field, pattern: Token) -> _Term:
        return _Term(Like(field, text_of(pattern)))

    def not_like(self, field: Field, _not: Token, pattern: Token) -> _Term:
        return _Term(Not(Like(field, text_of(pattern))))

    def is_null(self, field: Field) -> _Term:
        return _Term(IsNull(field))

    def is_not_null(self, field: Field, _not: Token) -> _Term:
        return _Term(Not(IsNull(field)))


def _joined(clauses: Sequence[_Clause]) -> dict[str, Any]:
    """Return what clauses set together; each may be there once."""
    joined: dict[str, Any] = {}
    for word, values in clauses:
        if joined.keys() & values:
            raise Misread(word, _twice(word, values))
        joined |= values
    return joined


def _twice(word: Token, values: dict[str, Any]) -> str:
    if "aggregates" in values:
        return f"{word.upper()} needs a comma before it, after the figures that are there already"
    return f"{word.upper()} is there twice"


def _query(event_type: str, clauses: Sequence[_Clause]) -> commands.Query:
    values = _joined(clauses)
    words = {name: clause.word for clause in clauses for name in clause.values}
    for name in ("by", "per"):
        if name in values and "aggregates" not in values:
            word = words[name]
            raise Misread(word, f"{word.upper()} needs a figure, such as COUNT")
    if "offset" in values and "limit" not in values:
        raise Misread(words["offset"], "OFFSET needs LIMIT")
    return commands.Query(event_type, **values)


def _unprefixed(word: Token, field: Field) -> str:
    if field.event_type is not None:
        message = f"{word.upper()} takes a field without its type: {field.name}"
        raise Misread(word, message)
    return field.name


def _several(make: Callable[[tuple[Expression, ...]], Expression], terms: Sequence[_Term]) -> _Term:
    if len(terms) == 1:
        return terms[0]
    expression = make(tuple(term.expression for term in terms))
    return _Term(expression, max(term.depth for term in terms))


def _deeper(word: Token | None, expression: Expression, term: _Term) -> _Term:
    if term.depth >= NESTING_MAX:
        raise Misread(word, f"conditions nest at most {NESTING_MAX} deep")
    return _Term(expression, term.depth + 1)
