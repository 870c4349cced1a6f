"""Values of every two types under one name, and whether what is shown of them is them.

Each pair of types is a field of two schemas: of the one type in the first, of the other in the
second. So a stream of two rows has all pairs, each beside the other alone, in a list, a map, a
record or a list of records.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import combinations
from typing import Any

from storage_core.avro import AvroSchema
from tests.log.parts.parts_lab import PartsLab, Row

WRAPS = ["alone", "list", "map", "record", "records"]
Pairs = list[tuple[str, str]]


def _logical(kind: str, logical: str, **more: Any) -> Row:
    return {"type": kind, "logicalType": logical, **more}


def _decimal(precision: int, scale: int) -> Row:
    return _logical("bytes", "decimal", precision=precision, scale=scale)


# The last moment that a time has in Python, and one that has all digits of its unit.
_FAR = datetime(9999, 12, 31, 23, 59, 59, 999_000)  # noqa: DTZ001 - of no zone
_FINE = datetime(2024, 2, 29, 1, 2, 3, 456_789)  # noqa: DTZ001 - of no zone
_FINE_NS = 1_709_168_523_456_789_123
_TEXT_NS = "2024-02-29 01:02:03.456789123"
KINDS: dict[str, tuple[Any, Any]] = {
    "boolean": ("boolean", True),
    "int": ("int", 2**31 - 1),
    "long": ("long", 2**53 + 1),
    "float": ("float", 0.5),
    "double": ("double", 1e300),
    "string": ("string", "é\\x41"),
    "bytes": ("bytes", b"\xff7"),
    "enum": ({"type": "enum", "symbols": ["LOW"]}, "LOW"),
    "fixed": ({"type": "fixed", "size": 2}, b"\xff\x00"),
    "whole": (_decimal(38, 0), Decimal(10**37 + 1)),
    "deep": (_decimal(30, 20), Decimal("1.00000000000000000001")),
    "cents": (_decimal(10, 2), Decimal("99999999.99")),
    "wide": (_decimal(50, 2), Decimal(10**45) + Decimal("0.01")),
    "day": (_logical("int", "date"), date(9999, 12, 31)),
    "ms": (_logical("long", "timestamp-millis"), _FAR.replace(tzinfo=UTC)),
    "us": (_logical("long", "timestamp-micros"), _FINE.replace(tzinfo=UTC)),
    "local_ms": (_logical("long", "local-timestamp-millis"), _FAR),
    "local_us": (_logical("long", "local-timestamp-micros"), _FINE),
}
# What Spark has no reader of.
UNREAD: dict[str, tuple[Any, Any]] = {
    "clock_ms": (_logical("int", "time-millis"), time(1, 2, 3, 4000)),
    "clock_us": (_logical("long", "time-micros"), time(1, 2, 3, 4567)),
    "ns": (_logical("long", "timestamp-nanos"), _FINE_NS),
    "local_ns": (_logical("long", "local-timestamp-nanos"), _FINE_NS),
}
_ALL = KINDS | UNREAD
# A double has the nearest, where both are one column.
_ROUNDED = ({"long", "float"}, {"long", "double"})


def pairs_of(kinds: Iterable[str]) -> Pairs:
    return list(combinations(kinds, 2))


def append_pairs(
    lab: PartsLab, pairs: Pairs, wrap: str, names: tuple[str, str] = ("One", "Two")
) -> None:
    """Append a row of each schema, sealed apart where `seal` is called between."""
    for side, name in enumerate(names):
        kinds = [pair[side] for pair in pairs]
        fields = [
            {
                "name": f"f{index}",
                "type": _wrapped(_named(_ALL[kind][0], f"N{index}"), wrap, f"R{index}"),
            }
            for index, kind in enumerate(kinds)
        ]
        text = json.dumps({"type": "record", "name": name, "fields": fields})
        values = {
            f"f{index}": _wrapped_value(_ALL[kind][1], wrap) for index, kind in enumerate(kinds)
        }
        lab.append_values(AvroSchema.parse(text), [values], 60 + side)


def faults_in(rows: list[Row], pairs: Pairs, wrap: str) -> Iterator[str]:
    """Tell which values of the two rows are not shown as they are."""
    for side, row in enumerate(rows):
        for index, pair in enumerate(pairs):
            name, value = f"f{index}", _ALL[pair[side]][1]
            own = [
                item
                for column, item in row.items()
                if item is not None and (column == name or column.startswith(f"{name}_"))
            ]
            result = [inner for item in own for inner in _unwrapped(item, wrap)]
            if len(result) != 1 or not _is_same(value, result[0], set(pair)):
                yield f"{pair[side]} of {pair} is {result}"


def _named(kind: Any, name: str) -> Any:
    is_named = isinstance(kind, dict) and kind["type"] in ("enum", "fixed")
    return {**kind, "name": name} if is_named else kind


def _wrapped(kind: Any, wrap: str, name: str) -> Any:
    if wrap == "list":
        return {"type": "array", "items": kind}
    if wrap == "map":
        return {"type": "map", "values": kind}
    record = {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}
    if wrap == "records":
        return {"type": "array", "items": record}
    return record if wrap == "record" else kind


def _wrapped_value(value: Any, wrap: str) -> Any:
    return {
        "alone": value,
        "list": [value],
        "map": [("k", value)],
        "record": {"x": value},
        "records": [{"x": value}],
    }[wrap]


def _unwrapped(value: Any, wrap: str) -> list[Any]:
    if wrap == "alone":
        return [value]
    if wrap == "list":
        return list(value)
    records = value if wrap == "records" else [dict(value)]
    return [one for record in records for one in record.values() if one is not None]


def _is_same(value: Any, result: Any, pair: set[str]) -> bool:
    if pair in _ROUNDED and isinstance(value, int):
        return result in (value, float(value))
    if isinstance(result, str):
        return result == value or _is_text_of(value, result)
    if isinstance(result, bytes | bytearray):
        return bytes(result) == value or _is_same(
            value, bytes(result).decode(errors="replace"), pair
        )
    if isinstance(value, Decimal):
        return Decimal(str(result)) == value
    if isinstance(value, datetime) and value.tzinfo and not result.tzinfo:
        # Spark hands instants over in the zone of the session.
        return bool(result == value.replace(tzinfo=None))
    return bool(result == value)


def _is_text_of(value: Any, result: str) -> bool:
    if isinstance(value, bool):
        return result == str(value).lower()
    if value == _FINE_NS:
        return result.removesuffix("+00").replace("T", " ") == _TEXT_NS
    if isinstance(value, float):
        return float(result) == value
    if isinstance(value, int | Decimal):
        return Decimal(result) == Decimal(value)
    if isinstance(value, datetime):
        return datetime.fromisoformat(result).replace(tzinfo=None) == value.replace(tzinfo=None)
    return not isinstance(value, bytes) and result == str(value)[: len(result)]
