"""REPLAY: the events of a context in the order in which they were stored.

Those of one type have its fields as columns. Those of all types have the fields as JSON, in column
`payload`, and are in the order of their times: these rise over the whole store.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from typed_events.language.commands import Query, Replay
from typed_events.language.expressions import Field
from typed_events.query.operands import CORE, Operand, Side, literal
from typed_events.query.rows import rows_from
from typed_events.query.selecting import Column, Selection

PAYLOAD: Final = "payload"


def query_of(replay: Replay, event_type: str) -> Query:
    """Return the query of a context's events of one type."""
    return Query(event_type, replay.context, since=replay.since, returned=replay.returned)


def select_all_types(
    replay: Replay,
    sides: Sequence[Side],
    sources: Mapping[str, str],
    versions: "Mapping[str, Mapping[int, Sequence[pa.Field[Any]]]]",
) -> Selection:
    """Return the query of a context's events of several types.

    Args:
        replay: The command.
        sides: The types.
        sources: The SELECT of each.
        versions: The fields of each version of a type.
    """
    columns = [Column(name, name, sides[0].core[name].type) for name in CORE]
    selects = []
    for side in sides:
        core = [f"{side.core[name].sql} AS {name}" for name in CORE]
        payload = f"{payload_of(side, versions[side.event_type], replay.returned)} AS {PAYLOAD}"
        keys = [f"{side.column('primary')} AS k0", literal(side.event_type) + " AS k1"]
        keys += [f"{side.column('shard')} AS k2", f"{side.column('address')} AS k3"]
        rows = rows_from(query_of(replay, side.event_type), side, sources[side.event_type])
        selects.append(f"SELECT {', '.join([*core, payload, *keys])} {rows}")
    union = " UNION ALL ".join(selects)
    columns.append(Column(PAYLOAD, PAYLOAD, pa.string()))
    listed = ", ".join(column.name for column in columns)
    text = f"SELECT {listed} FROM ({union}) ORDER BY k0, k1, k2, k3"  # noqa: S608 - compiled
    return Selection(text, columns)


def payload_of(
    side: Side,
    versions: "Mapping[int, Sequence[pa.Field[Any]]]",
    returned: Sequence[Field] | None,
) -> str:
    """Return the fields of an event's version as JSON."""
    wanted = {field.name for field in returned or () if field.event_type in (None, side.event_type)}
    whens = []
    for version, fields in versions.items():
        operands = [
            side.fields[field.name] for field in fields if not returned or field.name in wanted
        ]
        whens.append(f"WHEN {version} THEN {_json(operands)}")
    return f"CASE {side.column('version')} {' '.join(whens)} ELSE '{{}}' END"


def _json(operands: Sequence[Operand]) -> str:
    pairs = ", ".join(_pair(operand) for operand in operands)
    return f"CAST(json_object({pairs}) AS VARCHAR)" if pairs else "'{}'"


def _pair(operand: Operand) -> str:
    return f"{literal(operand.name)}, {_value(operand)}"


def _value(operand: Operand) -> str:
    """Return a value as JSON has it: times as ISO texts."""
    if operand.kind == "timestamp":
        return f"strftime(timezone('UTC', {operand.sql}), '%Y-%m-%dT%H:%M:%S.%fZ')"
    if operand.kind == "date":
        return f"strftime({operand.sql}, '%Y-%m-%d')"
    return operand.sql
