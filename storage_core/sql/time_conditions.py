"""Conditions on `time`, pushed down as bounds of the primary so that row groups are skipped.

`time` is computed from the primary, and DuckDB (2.0) does not skip by a computed column:

    WHERE time >= TIMESTAMP '2026-11-25'   is run as
    WHERE time >= TIMESTAMP '2026-11-25' AND "primary" >= 1795564800000

The bound follows from the condition, which stays, so it removes no row of the answer. It is added
for a comparison or BETWEEN of a stream's own `time` with a constant, joined by AND to the rest of
the WHERE. DuckDB serialises a statement to a JSON tree, and back to text; if that text parses to
another tree, the query is run as it was written. So is a query that is long, or nested too deep for
Python.
"""

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from storage_core.format.window import Unit
from storage_core.sql.stream_columns import TIME

_MENTIONS_TIME: Final = re.compile(rf"\b{TIME}\b", re.IGNORECASE)
# The constant may have any type that compares with a timestamp. An error or null bounds nothing: no
# primary with a time is below the minimum.
_BOUND: Final = "SELECT {0} {1} coalesce(TRY(epoch_us(CAST({2} AS TIMESTAMPTZ)) {3}), {4})"
_PRIMARY_MIN: Final = "-9223372036854775807"
_PRIMARY_MAX: Final = "9223372036854775807"
# Microseconds as a primary, for a lower and an upper bound. Rounding is safe: no primary lies
# between. One microsecond is a thousand nanoseconds.
_MICROSECONDS_TO_UNIT: Final[Mapping[Unit, tuple[str, str]]] = {
    "s": ("// 1000000", "// 1000000"),
    "ms": ("// 1000", "// 1000"),
    "us": ("+ 0", "+ 0"),
    "ns": ("* 1000", "* 1000 + 999"),
}
_LOWER_BOUNDS: Final = ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_EQUAL")
_UPPER_BOUNDS: Final = ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL")
_MIRRORED: Final[Mapping[str, str]] = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
}
# What a constant may be made of.
_OF_CONSTANTS: Final = ("CONSTANT", "CAST", "TYPE", "FUNCTION")
_DETERMINISTIC_FUNCTIONS: Final = re.compile(
    r"[-+*]|now|today|(?:get_)?current_(?:date|timestamp)|to_[a-z]+|date_trunc|timezone|trunc"
    r"|make_(?:date|timestamp|timestamptz)|epoch_ms"
)
_POSITION_KEYS: Final = ("query_location", "query_location_length")
# A tree takes hundreds of times the bytes of its text.
_TEXT_CHARS_MAX: Final = 2**14
Tree = dict[str, Any]


def with_bounds(parser: Any, query: str, units: Mapping[str, Unit]) -> str:  # noqa: ANN401 - DuckDB's
    """Return an equivalent query with bounds of primaries, or the query as it is.

    Args:
        parser: A connection without tables.
        query: One SELECT.
        units: The units of streams' primaries, by lowercase name.
    """
    if len(query) > _TEXT_CHARS_MAX or _MENTIONS_TIME.search(query) is None:
        return query
    try:
        return _with_bounds(parser, query, units)
    except RecursionError:
        return query


def _with_bounds(parser: Any, query: str, units: Mapping[str, Unit]) -> str:  # noqa: ANN401
    tree = _tree(parser, query)
    if tree is None:
        return query
    hidden = {cte["key"].lower() for node in _nodes(tree) for cte in _ctes(node)}
    of_streams = {name: unit for name, unit in units.items() if name not in hidden}
    added = [_bounded(parser, node, of_streams) for node in _selects(tree)]
    if not any(added):
        return query
    (text,) = parser.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    again = _tree(parser, text)
    return (
        text
        if again is not None and _without_positions(again) == _without_positions(tree)
        else query
    )


def _tree(parser: Any, query: str) -> Tree | None:  # noqa: ANN401 - DuckDB's
    """Return the tree of a statement; None where DuckDB has none, as of SHOW."""
    (text,) = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    tree: Tree = json.loads(text)
    return None if tree["error"] else tree


def _nodes(tree: Any) -> Iterator[Tree]:  # noqa: ANN401 - a part of a tree
    """Yield all objects of a tree."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, dict | list):
            yield from _nodes(part)


def _selects(tree: Tree) -> list[Tree]:
    return [node for node in _nodes(tree) if node.get("type") == "SELECT_NODE"]


def _ctes(node: Tree) -> list[Tree]:
    """Return the common table expressions of a statement."""
    named = node.get("cte_map")
    return named["map"] if isinstance(named, dict) else []


def _without_positions(tree: Any) -> Any:  # noqa: ANN401 - a part of a tree
    """Return a tree without positions in the text."""
    if isinstance(tree, dict):
        return {
            name: _without_positions(node)
            for name, node in tree.items()
            if name not in _POSITION_KEYS
        }
    return [_without_positions(node) for node in tree] if isinstance(tree, list) else tree


def _bounded(parser: Any, select: Tree, units: Mapping[str, Unit]) -> bool:  # noqa: ANN401
    """Add bounds to a SELECT; return whether there are any."""
    clause = select["where_clause"]
    if clause is None:
        return False
    source = select["from_table"]
    tables = _tables(source)
    single = next(iter(tables), None) if source["type"] == "BASE_TABLE" else None
    added = []
    for operator, column, constant in _conditions(clause):
        *before, name = (node.lower() for node in column)
        table = before[0] if len(before) == 1 else None if before else single
        unit = units.get(tables.get(table or "", ""), "sequence")
        if name == TIME and table is not None and unit != "sequence":
            added.append(_bound(parser, operator, [table, "primary"], constant, unit))
    if added:
        select["where_clause"] = _and(parser, [clause, *added])
    return bool(added)


def _tables(source: Tree) -> dict[str, str]:
    """Return the tables of a FROM by alias, in lowercase."""
    if source["type"] == "JOIN":
        left, right = _tables(source["left"]), _tables(source["right"])
        return {
            name: table
            for name, table in (left | right).items()
            if not (name in left and name in right)
        }
    if source["type"] != "BASE_TABLE" or source["schema_name"] or source["column_name_alias"]:
        return {}
    name = source["table_name"].lower()
    return {(source["alias"] or name).lower(): name}


def _conditions(clause: Tree) -> Iterator[tuple[str, list[str], Tree]]:
    """Yield the bounds that a WHERE sets: operator, column and constant."""
    if clause["type"] == "CONJUNCTION_AND":
        for node in clause["children"]:
            yield from _conditions(node)
    elif clause["type"] == "COMPARE_BETWEEN":
        yield from _comparison(_LOWER_BOUNDS[1], clause["input"], clause["lower"])
        yield from _comparison(_UPPER_BOUNDS[1], clause["input"], clause["upper"])
    elif clause["type"] in _MIRRORED:
        yield from _comparison(clause["type"], clause["left"], clause["right"])
        yield from _comparison(_MIRRORED[clause["type"]], clause["right"], clause["left"])


def _comparison(kind: str, column: Tree, constant: Tree) -> Iterator[tuple[str, list[str], Tree]]:
    if column["class"] == "COLUMN_REF" and _is_constant(constant):
        if kind in _LOWER_BOUNDS:
            yield ">=", column["column_names"], constant
        if kind in _UPPER_BOUNDS:
            yield "<=", column["column_names"], constant


def _is_constant(tree: Tree) -> bool:
    """Tell whether an expression has the same value for all rows."""
    parts = [node for node in _nodes(tree) if "class" in node]
    return all(
        node["class"] in _OF_CONSTANTS
        and (
            node["class"] != "FUNCTION"
            or _DETERMINISTIC_FUNCTIONS.fullmatch(node["function_name"]) is not None
        )
        for node in parts
    )


def _bound(parser: Any, operator: str, column: list[str], constant: Tree, unit: Unit) -> Tree:  # noqa: ANN401
    """Return the condition on the primary that a condition on its time implies."""
    lower, upper = _MICROSECONDS_TO_UNIT[unit]
    scale, default = (lower, _PRIMARY_MIN) if operator == ">=" else (upper, _PRIMARY_MAX)
    condition = _expression(parser, _BOUND.format("it", operator, "bound", scale, default))
    for node in _nodes(condition):
        for part, child in list(node.items()):
            if isinstance(child, dict) and child.get("column_names") == ["bound"]:
                node[part] = deepcopy(constant)
        if node.get("column_names") == ["it"]:
            node["column_names"] = column
    return condition


def _and(parser: Any, conditions: list[Tree]) -> Tree:  # noqa: ANN401 - DuckDB's
    both = _expression(parser, "SELECT true AND false")
    first, *others = conditions
    # As DuckDB parses it: no AND inside of an AND.
    inner = first["children"] if first["type"] == both["type"] else [first]
    both["children"] = [*inner, *others]
    return both


def _expression(parser: Any, text: str) -> Tree:  # noqa: ANN401 - DuckDB's
    tree = _tree(parser, text)
    assert tree is not None
    condition: Tree = tree["statements"][0]["node"]["select_list"][0]
    return condition
