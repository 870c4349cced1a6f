"""Conditions on `time` as bounds of the primary too, so that row groups are skipped by them.

`time` is computed of the primary, and DuckDB (2.0) skips nothing by what is computed:

    WHERE time >= TIMESTAMP '2026-11-25'   is asked as
    WHERE time >= TIMESTAMP '2026-11-25' AND "primary" >= 1795564800000

What is added follows from what is there, which stays: a row that it leaves out had no place in the
answer. Only what is plain is taken: a comparison, or BETWEEN, of a stream's own `time` with what
names no column, joined by AND to whatever else the WHERE says. DuckDB tells the tree of a statement
as JSON, and makes a text of a tree; where that text has another tree, the query is asked as it was
written. So is one that is long, or deeper than Python follows a tree.
"""

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from storage_core.format.window import Unit
from storage_core.sql.stream_columns import TIME

_NAMED: Final = re.compile(rf"\b{TIME}\b", re.IGNORECASE)
# Of any type that compares with a time. An error, or no value, bounds nothing; the least is such
# that no primary of a time lies below it.
_BOUND: Final = "SELECT {0} {1} coalesce(TRY(epoch_us(CAST({2} AS TIMESTAMPTZ)) {3}), {4})"
_LEAST: Final = "-9223372036854775807"
_MOST: Final = "9223372036854775807"
# A number of microseconds as one that primaries have. Both ways of rounding bound right: there is
# no primary between. Of one unit of microseconds there are a thousand of nanoseconds.
_IN_UNITS: Final[Mapping[Unit, tuple[str, str]]] = {
    "s": ("// 1000000", "// 1000000"),
    "ms": ("// 1000", "// 1000"),
    "us": ("+ 0", "+ 0"),
    "ns": ("* 1000", "* 1000 + 999"),
}
_FROM: Final = ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_EQUAL")
_UP_TO: Final = ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO", "COMPARE_EQUAL")
_TURNED: Final[Mapping[str, str]] = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
}
# What a time may be made of that is the same in all rows.
_OF_CONSTANTS: Final = ("CONSTANT", "CAST", "TYPE", "FUNCTION")
_STEADY: Final = re.compile(
    r"[-+*]|now|today|(?:get_)?current_(?:date|timestamp)|to_[a-z]+|date_trunc|timezone|trunc"
    r"|make_(?:date|timestamp|timestamptz)|epoch_ms"
)
_PLACES: Final = ("query_location", "query_location_length")
# A tree takes hundreds of times as many bytes as its text.
_TEXT_CHARS_MAX: Final = 2**14
Tree = dict[str, Any]


def with_bounds(parser: Any, query: str, units: Mapping[str, Unit]) -> str:  # noqa: ANN401 - DuckDB's
    """Return a query that answers the same and bounds primaries, or the query as it is.

    Args:
        parser: A connection without tables.
        query: One SELECT.
        units: What the primaries of streams count, by their names in small letters.
    """
    if len(query) > _TEXT_CHARS_MAX or _NAMED.search(query) is None:
        return query
    try:
        return _with_bounds(parser, query, units)
    except RecursionError:
        return query


def _with_bounds(parser: Any, query: str, units: Mapping[str, Unit]) -> str:  # noqa: ANN401
    tree = _tree(parser, query)
    if tree is None:
        return query
    hidden = {one["key"].lower() for node in _nodes(tree) for one in _ctes(node)}
    of_streams = {name: unit for name, unit in units.items() if name not in hidden}
    added = [_bounded(parser, node, of_streams) for node in _selects(tree)]
    if not any(added):
        return query
    (text,) = parser.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    again = _tree(parser, text)
    return text if again is not None and _bare(again) == _bare(tree) else query


def _tree(parser: Any, query: str) -> Tree | None:  # noqa: ANN401 - DuckDB's
    """Return the tree of a statement; None where DuckDB has none, as of SHOW."""
    (text,) = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    tree: Tree = json.loads(text)
    return None if tree["error"] else tree


def _nodes(tree: Any) -> Iterator[Tree]:  # noqa: ANN401 - a part of a tree
    """Yield all that has parts."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, dict | list):
            yield from _nodes(part)


def _selects(tree: Tree) -> list[Tree]:
    return [one for one in _nodes(tree) if one.get("type") == "SELECT_NODE"]


def _ctes(node: Tree) -> list[Tree]:
    """Return what a statement calls by names of its own."""
    named = node.get("cte_map")
    return named["map"] if isinstance(named, dict) else []


def _bare(tree: Any) -> Any:  # noqa: ANN401 - a part of a tree
    """Return a tree without where in the text its parts stand."""
    if isinstance(tree, dict):
        return {name: _bare(one) for name, one in tree.items() if name not in _PLACES}
    return [_bare(one) for one in tree] if isinstance(tree, list) else tree


def _bounded(parser: Any, select: Tree, units: Mapping[str, Unit]) -> bool:  # noqa: ANN401
    """Add bounds to a SELECT; tell whether there were any."""
    where = select["where_clause"]
    if where is None:
        return False
    source = select["from_table"]
    tables = _tables(source)
    alone = next(iter(tables), None) if source["type"] == "BASE_TABLE" else None
    added = []
    for at, column, constant in _conditions(where):
        *before, name = (one.lower() for one in column)
        table = before[0] if len(before) == 1 else None if before else alone
        unit = units.get(tables.get(table or "", ""), "sequence")
        if name == TIME and table is not None and unit != "sequence":
            added.append(_bound(parser, at, [table, "primary"], constant, unit))
    if added:
        select["where_clause"] = _joined(parser, [where, *added])
    return bool(added)


def _tables(source: Tree) -> dict[str, str]:
    """Return the tables of a FROM that columns can be named by, in small letters."""
    if source["type"] == "JOIN":
        left, right = _tables(source["left"]), _tables(source["right"])
        return {
            name: of for name, of in (left | right).items() if not (name in left and name in right)
        }
    if source["type"] != "BASE_TABLE" or source["schema_name"] or source["column_name_alias"]:
        return {}
    name = source["table_name"].lower()
    return {(source["alias"] or name).lower(): name}


def _conditions(where: Tree) -> Iterator[tuple[str, list[str], Tree]]:
    """Yield the bounds of columns that a WHERE sets: which, of what, and where it is."""
    if where["type"] == "CONJUNCTION_AND":
        for one in where["children"]:
            yield from _conditions(one)
    elif where["type"] == "COMPARE_BETWEEN":
        yield from _sides(_FROM[1], where["input"], where["lower"])
        yield from _sides(_UP_TO[1], where["input"], where["upper"])
    elif where["type"] in _TURNED:
        yield from _sides(where["type"], where["left"], where["right"])
        yield from _sides(_TURNED[where["type"]], where["right"], where["left"])


def _sides(kind: str, column: Tree, constant: Tree) -> Iterator[tuple[str, list[str], Tree]]:
    if column["class"] == "COLUMN_REF" and _is_constant(constant):
        if kind in _FROM:
            yield ">=", column["column_names"], constant
        if kind in _UP_TO:
            yield "<=", column["column_names"], constant


def _is_constant(tree: Tree) -> bool:
    """Tell whether a value is the same for all rows, and each time it is asked for."""
    parts = [one for one in _nodes(tree) if "class" in one]
    return all(
        one["class"] in _OF_CONSTANTS
        and (one["class"] != "FUNCTION" or _STEADY.fullmatch(one["function_name"]) is not None)
        for one in parts
    )


def _bound(parser: Any, sense: str, column: list[str], constant: Tree, unit: Unit) -> Tree:  # noqa: ANN401
    """Return the condition on a primary that a condition on its time implies."""
    of, otherwise = (_IN_UNITS[unit][0], _LEAST) if sense == ">=" else (_IN_UNITS[unit][1], _MOST)
    found = _expression(parser, _BOUND.format("it", sense, "bound", of, otherwise))
    for one in _nodes(found):
        for part, other in list(one.items()):
            if isinstance(other, dict) and other.get("column_names") == ["bound"]:
                one[part] = deepcopy(constant)
        if one.get("column_names") == ["it"]:
            one["column_names"] = column
    return found


def _joined(parser: Any, conditions: list[Tree]) -> Tree:  # noqa: ANN401 - DuckDB's
    both = _expression(parser, "SELECT true AND false")
    first, *others = conditions
    # As DuckDB reads it again: no AND inside of an AND.
    inner = first["children"] if first["type"] == both["type"] else [first]
    both["children"] = [*inner, *others]
    return both


def _expression(parser: Any, text: str) -> Tree:  # noqa: ANN401 - DuckDB's
    tree = _tree(parser, text)
    assert tree is not None
    found: Tree = tree["statements"][0]["node"]["select_list"][0]
    return found
