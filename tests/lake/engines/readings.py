"""The values of a topic whose schema has five versions, and what each engine is to show of them.

    1  fields called as columns of the log, an enum, a record, a field that differs in case
    2  fields are added, one with a default
    3  the record grows, by a record; maps and lists come
    4  integers become longs, also inside; local times, a time of day, a date
    5  types change: a text where numbers were, nanoseconds, a wider decimal, a record no more

A value is written as Arrow has it; beside it stands what the table has of it, and what SQL has. A
column that is not named is null.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from storage_core.avro import AvroSchema

Fields = dict[str, Any]
_DAY: Final = date(2024, 2, 29)
_MOMENT: Final = datetime(2024, 2, 29, 23, 59, 59, 250_000, UTC)
_CLOCK: Final = time(7, 8, 9, 10)
_WORDS: Final = ("Gerät", "装置", "", "naïve'\"\\", "🌡")
_FLOATS: Final = (20.5, float("nan"), -0.0, 1e300, float("-inf"))
_REGISTRY_ID: Final = 100
# The versions since which a record has grown, and types have changed.
_GROWN: Final = 3
_CHANGED_AT: Final = 5


@dataclass(frozen=True, slots=True)
class Written:
    """A value, and what is to be found of it.

    Attributes:
        fields: The value.
        table: The columns of the table that have some of it.
        sql: Those of SQL, and of Spark's frames of parts.
    """

    fields: Fields
    table: Fields
    sql: Fields


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the schema.

    Attributes:
        number: The version.
        schema: The schema.
        value: Returns the n-th value that is written by it.
    """

    number: int
    schema: AvroSchema
    value: Callable[[int], Written]

    @property
    def registry_id(self) -> int:
        """The id under which a registry has it."""
        return _REGISTRY_ID + self.number


def _fields(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> list[Fields]:
    return [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]


def _record(name: str, *fields: Any) -> Fields:
    return {"type": "record", "name": name, "fields": _fields(*fields)}


def _logical(kind: str, name: str, **more: int) -> Fields:
    return {"type": kind, "logicalType": name, **more}


_SWITCH: Final = {"type": "enum", "name": "Switch", "symbols": ["off", "on"]}
_DECK: Final = _record("Deck", ("side", {**_SWITCH, "name": "Side"}), ("height", "int", 0))
_DECKED: Final = ("deck", ["null", _DECK], None)
_FIRST: Final[Fields] = {
    "device": "string",
    "level": "int",
    "state": _SWITCH,
    "shard": "int",
    "Temp": "double",
    "at": _logical("long", "timestamp-millis"),
    "place": _record("Place", ("room", "string"), ("floor", "int")),
}
_SECOND: Final[Fields] = {
    **_FIRST,
    "hue": ["null", "string"],
    "temp": "int",
    "price": _logical("bytes", "decimal", precision=10, scale=2),
}
_THIRD: Final[Fields] = {
    **_SECOND,
    "place": _record("Place", ("room", "string"), ("floor", "int"), _DECKED),
    "marks": {"type": "map", "values": ["null", "int"]},
    "visits": {"type": "array", "items": _record("Visit", ("by", "string"), ("count", "int"))},
}
_FOURTH: Final[Fields] = {
    **_THIRD,
    "level": "long",
    "place": _record("Place", ("room", "string"), ("floor", "long"), _DECKED),
    "visits": {"type": "array", "items": _record("Visit", ("by", "string"), ("count", "long"))},
    "seen": _logical("long", "local-timestamp-micros"),
    "clock": _logical("long", "time-micros"),
    "day": _logical("int", "date"),
}
_FIFTH: Final[Fields] = {
    **_FOURTH,
    "level": "string",
    "at": _logical("long", "timestamp-nanos"),
    "price": _logical("bytes", "decimal", precision=20, scale=4),
    "place": "string",
    "wide": _logical("bytes", "decimal", precision=50, scale=1),
    "unit": "string",
}
_DEFAULTS: Final[Fields] = {"hue": None, "unit": "°C"}


def known_so_far(kind: str, columns: Fields, versions: Collection[Version]) -> Fields:
    """Return columns as they are while there are some versions.

    A record grows by later ones. SQL has one column for numbers and the texts that come later, and
    for decimals of every scale.
    """
    number = max(version.number for version in versions)
    place, level, price = (columns.get(name) for name in ("place", "level", "price"))
    changed: Fields = {}
    if place is not None and number < _GROWN:
        changed["place"] = {name: place[name] for name in place if name != "deck"}
    if kind == "sql" and number == _CHANGED_AT:
        changed["level"] = None if level is None else str(level)
        changed["price"] = None if price is None else price.quantize(Decimal("0.0001"))
    return {**columns, **changed}


def _of_first(n: int) -> Written:
    word, room = _WORDS[n % len(_WORDS)], {"room": f"room {n}", "floor": n - 3}
    fields = {
        "device": word,
        "level": n - 2,
        "state": ("off", "on")[n % 2],
        "shard": 40 + n,
        "Temp": _FLOATS[n % len(_FLOATS)],
        "at": _MOMENT + timedelta(milliseconds=n),
        "place": room,
    }
    others = {"value_state": fields["state"], "value_shard": fields["shard"]}
    columns = {name: fields[name] for name in ("device", "level", "Temp", "at")} | others
    columns["place"] = {**room, "deck": None}
    return Written(fields, columns, columns)


def _of_second(n: int) -> Written:
    price = Decimal(n * 7 - 10).scaleb(-2)
    more: Fields = {"hue": None if n % 3 == 0 else f"Farbe {n} é", "price": price}
    columns = {**more, "temp_2": n * 10}
    return _with(_of_first(n), {**more, "temp": n * 10}, columns, columns)


def _of_third(n: int) -> Written:
    deck = None if n % 2 else {"side": "on", "height": n}
    visits = [{"by": f"who {at}", "count": at} for at in range(n % 3)]
    marks: dict[str, int | None] = {"ä": n, "b": None} if n % 2 else {}
    before = _of_second(n)
    place = {"place": {**before.fields["place"], "deck": deck}}
    columns = {**place, "marks": list(marks.items()), "visits": visits}
    return _with(before, columns, columns, columns)


def _of_fourth(n: int) -> Written:
    before = _of_third(n)
    large = 2**40 + n
    place = {"place": {**before.fields["place"], "floor": -large}}
    visits = [{**visit, "count": large} for visit in before.fields["visits"]]
    seen = _MOMENT.replace(tzinfo=None) + timedelta(microseconds=n)
    more: Fields = {**place, "visits": visits, "day": _DAY - timedelta(days=400 * n)}
    times: dict[str, Any] = {"seen": seen, "clock": _CLOCK.replace(microsecond=n)}
    texts = {name: value.isoformat(timespec="microseconds") for name, value in times.items()}
    return _with(
        before,
        {**more, **times, "level": large},
        {**more, **texts, "level": large},
        {**more, **times, "level": large},
    )


def _of_fifth(n: int) -> Written:
    before = _of_fourth(n)
    price, wide = Decimal(n * 12345).scaleb(-4), Decimal(f"{10**39}.{n % 10}")
    at_ns = int(_MOMENT.timestamp()) * 10**9 + n
    own: Fields = {"price": price, "place": f"Ort {n}", "level": f"hoch {n}"}
    more: Fields = {"hue": f"violet {n}", "unit": "°C"}
    gone = ("place", "level", "at", "price")
    table = {name: value for name, value in before.table.items() if name not in gone}
    sql = {name: value for name, value in before.sql.items() if name not in ("place", "at")}
    return _with(
        Written(before.fields, table, sql),
        {**own, **more, "wide": wide, "at": at_ns},
        {
            **{f"{name}_{kind}": own[name] for name, kind in _CHANGED.items()},
            **more,
            "wide": str(wide),
            "at_timestamp_ns": at_ns,
        },
        {
            **more,
            "level": own["level"],
            "place_string": own["place"],
            "price": price,
            "wide": str(wide),
            "at_timestamp_ns": at_ns,
        },
    )


_CHANGED: Final = {"price": "decimal", "place": "string", "level": "string"}


def _with(before: Written, fields: Fields, table: Fields, sql: Fields) -> Written:
    return Written(before.fields | fields, before.table | table, before.sql | sql)


def _schema(fields: Mapping[str, Any]) -> AvroSchema:
    named = [
        {"name": name, "type": kind, **({"default": _DEFAULTS[name]} if name in _DEFAULTS else {})}
        for name, kind in fields.items()
    ]
    return AvroSchema.parse(json.dumps({"type": "record", "name": "Reading", "fields": named}))


VERSIONS: Final = tuple(
    Version(number, _schema(fields), value)
    for number, (fields, value) in enumerate(
        (
            (_FIRST, _of_first),
            (_SECOND, _of_second),
            (_THIRD, _of_third),
            (_FOURTH, _of_fourth),
            (_FIFTH, _of_fifth),
        ),
        start=1,
    )
)
