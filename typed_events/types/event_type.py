"""A type of events: its name, its version and its fields.

It is kept as an Avro record schema in JSON, of namespace `shardlog.events`:

    int -> long          string -> string                       timestamp -> long timestamp-micros
    float -> double      uuid -> string with logicalType uuid   date -> int date
    bool -> boolean      a list of values -> enum `<type>_<field>`

A field `… | null` is a union of null and the type, and null where it is absent. A state type has
the attribute `ttlSeconds`, which the schema of its payloads has not: the TTL may change.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args

from storage_core.avro import AvroSchema
from storage_core.platform.name_suggestions import did_you_mean
from storage_core.platform.overriding import override
from typed_events.errors import CommandError
from typed_events.language.commands import Define

Kind = Literal["int", "float", "string", "bool", "uuid", "timestamp", "date", "enum"]
NAMESPACE: Final = "shardlog.events"
CORE_FIELDS: Final = ("context_id", "event_type", "timestamp", "id", "version")
# Rows of state have these, too.
STATE_FIELDS: Final = ("row", "deleted")
FIELDS_MAX: Final = 1000
ENUM_VALUES_MAX: Final = 1000
NAME_LENGTH_MAX: Final = 200
VERSIONS_MAX: Final = 2**16 - 1
_TTL: Final = "ttlSeconds"
_KINDS: Final = tuple(kind for kind in get_args(Kind) if kind != "enum")
_TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WRITTEN: Final = re.compile(r"\s*(\w+)\s*(?:\|\s*null\s*)?\Z", re.IGNORECASE)
_SHOWN_MAX: Final = 60
_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_AVRO: Final[Mapping[str, Any]] = {
    "int": "long",
    "float": "double",
    "string": "string",
    "bool": "boolean",
    "uuid": {"type": "string", "logicalType": "uuid"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}


@dataclass(frozen=True, slots=True)
class FieldType:
    """What values a field has.

    Attributes:
        kind: Which type.
        is_nullable: Whether it may be null, or absent.
        values: The values of an enum, in the order they were written.
    """

    kind: Kind
    is_nullable: bool = False
    values: tuple[str, ...] = ()

    @override
    def __str__(self) -> str:
        """As DEFINE has it."""
        written = json.dumps(self.values, ensure_ascii=False) if self.kind == "enum" else self.kind
        return f"{written} | null" if self.is_nullable else written


@dataclass(frozen=True)
class EventType:
    """One version of a type.

    Attributes:
        name: The type's name, and that of its stream.
        version: From 1.
        fields: What values each field has, in the order they were written.
        ttl_s: How long a row of a state stream lives; None for events.
    """

    name: str
    version: int
    fields: Mapping[str, FieldType]
    ttl_s: int | None = None

    @property
    def is_state(self) -> bool:
        """Whether it is of rows that change and expire, and not of events."""
        return self.ttl_s is not None

    @cached_property
    def avro_text(self) -> str:
        """The Avro record schema, as JSON, with what else is kept of the type."""
        return self._text({} if self.ttl_s is None else {_TTL: self.ttl_s})

    @cached_property
    def schema(self) -> AvroSchema:
        """The Avro record schema of payloads."""
        return AvroSchema.parse(self._text({}))

    def _text(self, others: Mapping[str, Any]) -> str:
        record: dict[str, Any] = {
            "type": "record",
            "name": self.name,
            "namespace": NAMESPACE,
            "fields": [self._avro_field(name, kind) for name, kind in self.fields.items()],
            **others,
        }
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"))

    def _avro_field(self, name: str, field: FieldType) -> dict[str, Any]:
        avro = _AVRO.get(field.kind) or {
            "type": "enum",
            "name": f"{self.name}_{name}",
            "symbols": list(field.values),
        }
        if field.is_nullable:
            return {"name": name, "type": ["null", avro], "default": None}
        return {"name": name, "type": avro}

    @classmethod
    def from_avro(cls, version: int, text: str) -> "EventType":
        """Return the type that `avro_text` was made of."""
        record = json.loads(text)
        fields = {field["name"]: _from_avro(field["type"]) for field in record["fields"]}
        # Schemas that were parsed have their namespace in the name.
        return cls(record["name"].rpartition(".")[2], version, fields, record.get(_TTL))

    @classmethod
    def from_define(cls, define: Define, version: int) -> "EventType":
        """Return a version as DEFINE wrote it.

        Raises:
            CommandError: A name cannot be one, or a field's type is none.
        """
        _check_type_name(define.event_type)
        if not 1 <= len(define.fields) <= FIELDS_MAX:
            message = f"a type has 1 to {FIELDS_MAX:,} fields, not {len(define.fields):,}"
            raise CommandError(message)
        fields: dict[str, FieldType] = {}
        folded: dict[str, str] = {}
        for name, written in define.fields.items():
            _check_field_name(name, is_state=define.ttl_s is not None)
            if (other := folded.setdefault(name.lower(), name)) != name:
                message = (
                    f'fields "{other}" and "{name}" differ in case only: SQL takes them for one'
                )
                raise CommandError(message)
            fields[name] = _field_type(name, written)
        return cls(define.event_type, version, fields, define.ttl_s)


def next_version(define: Define, versions: Sequence[EventType]) -> EventType:
    """Return the version that DEFINE makes, or the one of those there are that is the same.

    Of a state type the newest version says how long all rows live. That version with another TTL is
    returned as it is to be.

    Args:
        define: What was written.
        versions: Those that there are, oldest first.

    Raises:
        CommandError: It is none, or changes what a new version may not.
    """
    newest = versions[-1] if versions else None
    version = define.version or (newest.version + 1 if newest else 1)
    wanted = EventType.from_define(define, version)
    if newest is not None and wanted.is_state != newest.is_state:
        raise CommandError(_other_kind(wanted, newest))
    for former in versions:
        if former.version == version or (former is newest and define.version is None):
            if dict(wanted.fields) == dict(former.fields):
                return _same(wanted, former, versions[-1])
            if former.version == version:
                message = (
                    f'version {version} of "{wanted.name}" is there, with other fields: '
                    f"a new version is AS {versions[-1].version + 1}"
                )
                raise CommandError(message)
    following = newest.version + 1 if newest else 1
    if version != following:
        message = f'the next version of "{wanted.name}" is {following}, not {version}'
        raise CommandError(message)
    if version > VERSIONS_MAX:
        message = f'"{wanted.name}" has {VERSIONS_MAX:,} versions, and can have no more'
        raise CommandError(message)
    _check_changes(wanted, versions)
    return wanted


def _same(wanted: EventType, former: EventType, newest: EventType) -> EventType:
    """Return a version that has the wanted fields already, with the TTL that is wanted."""
    if wanted.ttl_s == newest.ttl_s:
        return former
    if former is not newest:
        message = (
            f'"{wanted.name}" has TTL {ttl_text(newest.ttl_s)} by its newest version, '
            f"{newest.version}: DEFINE that to change it"
        )
        raise CommandError(message)
    return replace(former, ttl_s=wanted.ttl_s)


def ttl_text(ttl_s: int | None) -> str:
    """Return how long rows live as DEFINE has it: `30m`; of events, `for good`."""
    if ttl_s is None:
        return "for good"
    unit = next(unit for unit, seconds in _SECONDS.items() if ttl_s % seconds == 0)
    return f"{ttl_s // _SECONDS[unit]}{unit}"


def _check_changes(wanted: EventType, versions: Sequence[EventType]) -> None:
    last: dict[str, tuple[int, FieldType]] = {}
    spelled: dict[str, str] = {}
    for former in versions:
        for name, kind in former.fields.items():
            last[name] = former.version, kind
            spelled[name.lower()] = name
    for name, kind in wanted.fields.items():
        if (other := spelled.get(name.lower(), name)) != name:
            message = f'field "{name}" was "{other}": names that differ in case only are one to SQL'
            raise CommandError(message)
        if name not in last:
            continue
        version, was = last[name]
        if not _may_become(was, kind):
            message = (
                f'field "{name}" was {_short(was)} in version {version} and cannot become '
                f"{_short(kind)}: a new version may add and drop fields, make one nullable, "
                "widen int to float, change the values of an enum"
            )
            raise CommandError(message)


def _may_become(was: FieldType, kind: FieldType) -> bool:
    if was.is_nullable and not kind.is_nullable:
        return False
    return was.kind == kind.kind or (was.kind, kind.kind) == ("int", "float")


def _other_kind(wanted: EventType, former: EventType) -> str:
    def described(event_type: EventType) -> str:
        of_state = f"of state with TTL {ttl_text(event_type.ttl_s)}"
        return of_state if event_type.is_state else "of events"

    hint = f"; write AS STATE TTL {ttl_text(former.ttl_s)}" if former.is_state else ""
    return (
        f'"{wanted.name}" is a type {described(former)} and cannot become '
        f"one {described(wanted)}{hint or ': define another type'}"
    )


def _check_type_name(name: str) -> None:
    if not _TYPE_NAME.match(name) or len(name) > NAME_LENGTH_MAX:
        message = (
            f"{_quoted(name)} cannot be the name of a type: it has letters, digits and _, begins "
            f"with a letter, and is at most {NAME_LENGTH_MAX} long"
        )
        raise CommandError(message)


def is_field_name(name: str) -> bool:
    """Tell whether a field, or a value of an enum, can have a name; those of every event aside."""
    return bool(_FIELD_NAME.match(name)) and len(name) <= NAME_LENGTH_MAX


def _check_field_name(name: str, *, is_state: bool) -> None:
    if name.lower() in CORE_FIELDS or (is_state and name.lower() in STATE_FIELDS):
        whose = "row of state" if is_state else "event"
        message = f'every {whose} has "{name.lower()}" already: call the field something else'
        raise CommandError(message)
    if not is_field_name(name):
        message = (
            f"{_quoted(name)} cannot be the name of a field: it has letters, digits and _, does "
            f"not begin with a digit, and is at most {NAME_LENGTH_MAX} long"
        )
        raise CommandError(message)


def _field_type(name: str, written: str | tuple[str, ...]) -> FieldType:
    if not isinstance(written, str):
        return FieldType("enum", values=_enum_values(name, written))
    match = _WRITTEN.match(written)
    word = match[1].lower() if match else written
    if match is None or word not in _KINDS:
        message = (
            f'field "{name}": {_quoted(written)} is no type{did_you_mean([word], _KINDS)}; there '
            f'are {", ".join(_KINDS)}, each also as "int | null", and a list of the values of an '
            "enum"
        )
        raise CommandError(message)
    return FieldType(cast("Kind", word), is_nullable="|" in written)


def _enum_values(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) > ENUM_VALUES_MAX:
        message = (
            f'field "{name}": an enum has at most {ENUM_VALUES_MAX:,} values, not {len(values):,}'
        )
        raise CommandError(message)
    if len(set(values)) != len(values):
        twice = next(value for place, value in enumerate(values) if value in values[:place])
        message = f'field "{name}": the value {_quoted(twice)} is there twice'
        raise CommandError(message)
    for value in values:
        if not is_field_name(value):
            message = (
                f'field "{name}": {_quoted(value)} cannot be the value of an enum: it has letters, '
                "digits and _, and does not begin with a digit"
            )
            raise CommandError(message)
    return values


def _from_avro(avro: Any) -> FieldType:  # noqa: ANN401 - JSON
    if isinstance(avro, list):
        inner = _from_avro(avro[1])
        return FieldType(inner.kind, is_nullable=True, values=inner.values)
    if isinstance(avro, dict) and avro["type"] == "enum":
        return FieldType("enum", values=tuple(avro["symbols"]))
    return FieldType(next(cast("Kind", kind) for kind, written in _AVRO.items() if written == avro))


def _quoted(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return f'"{text[:_SHOWN_MAX]}…"' if len(text) > _SHOWN_MAX else f'"{text}"'


def _short(field: FieldType) -> str:
    text = str(field)
    return f"{text[:_SHOWN_MAX]}…" if len(text) > _SHOWN_MAX else text
