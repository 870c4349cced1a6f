"""What a condition, an order or a figure is of: a column of a type's rows, as SQL.

    context_id, event_type, timestamp, id, version        core: every row of every type has them
    row, deleted                                          of state: which row it is, its tombstone
    a field                                               its column in SQL over the stream

A field of a stream that Kafka feeds may be called like a core column; it is `value_<name>` then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from storage_core.platform.name_suggestions import unknown_names
from storage_core.sql.field_columns import FieldColumn
from storage_core.sql.pool.pooled_stream import PooledColumns, PooledSnapshot
from storage_core.sql.stream_view import quoted, sql_type
from storage_core.sql.type_unification import unified_type
from typed_events.errors import CommandError
from typed_events.language.expressions import Field

CORE: Final = ("context_id", "event_type", "timestamp", "id", "version")
# What rows of state have beside it: live rows, and all that was stored.
LIVE: Final = ("row",)
UPDATES: Final = ("row", "deleted")
# How values compare; `other` do not.
Kind = Literal[
    "int",
    "float",
    "bool",
    "string",
    "uuid",
    "timestamp",
    "local_timestamp",
    "date",
    "context",
    "type",
    "time",
    "position",
    "other",
]
# Beside a field of an event type whose texts are UUIDs, all kept in lower case.
UUIDS: Final[dict[bytes | str, bytes | str]] = {b"kind": b"uuid"}
TIMESTAMP: Final = pa.timestamp("us", "UTC")
_CORE_TYPES: Final[Mapping[str, pa.DataType]] = {
    "context_id": pa.string(),
    "event_type": pa.string(),
    "timestamp": TIMESTAMP,
    "id": pa.string(),
    "version": pa.int64(),
    "row": pa.string(),
    "deleted": pa.bool_(),
}
_CORE_KINDS: Final[Mapping[str, Kind]] = {
    "context_id": "context",
    "event_type": "type",
    "timestamp": "time",
    "id": "position",
    "version": "int",
    "row": "string",
    "deleted": "bool",
}
_types: Any = pa.types


@dataclass(frozen=True, slots=True)
class Operand:
    """A column.

    Attributes:
        name: As the command has it, for messages.
        kind: How its values compare.
        sql: The value in SQL.
        type: Its type in the answer.
        side: Where it is from.
    """

    name: str
    kind: Kind
    sql: str
    type: pa.DataType
    side: "Side"


class Side:
    """The rows of a type in a query: its columns under an alias."""

    def __init__(
        self,
        snapshot: PooledSnapshot | PooledColumns | None,
        event_type: str,
        alias: str,
        defined: "Sequence[pa.Field[Any]] | None",
        of_state: Sequence[str] = (),
    ) -> None:
        """Combine what is stored with what is defined.

        Args:
            snapshot: The snapshot of its stream, or its columns; None where nothing was stored yet.
            event_type: Its name.
            alias: What its rows are called in SQL.
            defined: The fields of an event type; None where the stream is none.
            of_state: What rows of state have beside the core fields; nothing for events.
        """
        self.event_type = event_type
        self.alias = alias
        self.has_keys = snapshot is None or snapshot.has_keys
        self.unit = "us" if snapshot is None else snapshot.unit
        columns = () if snapshot is None else snapshot.fields
        self.fields = {
            operand.name: operand
            for operand in (
                self._stored(columns) if defined is None else self._defined(defined, columns)
            )
        }
        self.core = {name: self._core(name) for name in (*CORE, *of_state)}

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self.core, *self.fields]

    def find(self, name: str) -> Operand | None:
        """Return a column; None if there is none of this name."""
        return self.core.get(name) or self.fields.get(name)

    def unknown(self, name: str) -> CommandError:
        """Return the error of a name that no column has."""
        return CommandError(f"{self.event_type}: {unknown_names('field', [name], self.names)}")

    def column(self, name: str) -> str:
        """Return a column of the stream's in SQL."""
        return f"{self.alias}.{quoted(name)}"

    @property
    def position(self) -> str:
        """The columns that order rows by position."""
        return f"{self.column('shard')}, {self.column('address')}"

    def _core(self, name: str) -> Operand:
        if name == "context_id":
            # A key of Kafka's may be no text.
            key = self.column("key")
            value = (
                f"coalesce(TRY(decode({key})), '0x' || lower(hex({key})))"
                if self.has_keys
                else f"CAST({self.column('secondary')} AS VARCHAR)"
            )
        elif name == "event_type":
            value = literal(self.event_type)
        elif name == "timestamp":
            value = "CAST(NULL AS TIMESTAMPTZ)" if self.unit == "sequence" else self.column("time")
        elif name == "row":
            value = f"coalesce(decode({self.column('headers')}[1].\"value\"), '')"
        elif name == "deleted":
            value = f"({self.column('schema_id')} IS NULL)"
        elif name == "id":
            value = f"({self.column('shard')} || ':' || {self.column('address')})"
        else:
            value = f"CAST({self.column('version')} AS BIGINT)"
        return Operand(name, _CORE_KINDS[name], value, _CORE_TYPES[name], self)

    def _defined(
        self, defined: "Iterable[pa.Field[Any]]", columns: Iterable[FieldColumn]
    ) -> Iterator[Operand]:
        """Yield the fields of an event type, whether rows have them or not."""
        stored: dict[str, list[FieldColumn]] = {}
        for column in columns:
            stored.setdefault(column.field, []).append(column)
        for field in defined:
            of_field = stored.get(field.name, [])
            is_uuid = field.metadata == UUIDS
            if not of_field:
                value = f"CAST(NULL AS {sql_type(field.type)})"
                kind = "uuid" if is_uuid else kind_of(field.type)
                yield Operand(field.name, kind, value, field.type, self)
            for number, column in enumerate(of_field):
                data_type = unified_type(column.types)
                value = self.column(column.name)
                if number == 0 and data_type != field.type:
                    value, data_type = f"CAST({value} AS {sql_type(field.type)})", field.type
                name = column.name if number else field.name
                kind = "uuid" if is_uuid else kind_of(data_type)
                yield Operand(name, kind, value, data_type, self)

    def _stored(self, columns: Iterable[FieldColumn]) -> Iterator[Operand]:
        """Yield the fields of any other stream."""
        names = set(CORE)
        for column in columns:
            name = column.field if column.field not in names else column.name
            if name in names:
                name = f"value_{name}"
            names.add(name)
            data_type = unified_type(column.types)
            value = self.column(column.name)
            if _types.is_decimal(data_type):
                value, data_type = f"CAST({value} AS DOUBLE)", pa.float64()
            yield Operand(name, kind_of(data_type), value, data_type, self)


def kind_of(data_type: pa.DataType) -> Kind:
    """Return how the values of a type compare."""
    kinds: tuple[tuple[Any, Kind], ...] = (
        (_types.is_boolean, "bool"),
        (_types.is_integer, "int"),
        (_types.is_floating, "float"),
        (_types.is_string, "string"),
        (_types.is_date, "date"),
    )
    for is_such, kind in kinds:
        if is_such(data_type):
            return kind
    if _types.is_timestamp(data_type):
        untyped: Any = data_type
        return "local_timestamp" if untyped.tz is None else "timestamp"
    return "other"


def literal(text: str) -> str:
    """Return a text as a literal of SQL.

    Raises:
        CommandError: It has half of a surrogate pair.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        message = "a text has half of a surrogate pair"
        raise CommandError(message) from error
    if "\0" in text:
        # SQL ends there.
        return f"decode({blob(encoded)})"
    return "'" + text.replace("'", "''") + "'"


def blob(data: bytes) -> str:
    """Return bytes as a literal of SQL."""
    return "'" + "".join(f"\\x{byte:02X}" for byte in data) + "'::BLOB"


def single(side: Side, field: Field) -> Operand:
    """Return the column of a field in a query of one type.

    Raises:
        CommandError: There is none.
    """
    if field.event_type is not None and field.event_type != side.event_type:
        message = (
            f"{field.event_type}.{field.name}: the query is of {side.event_type} alone; "
            f"write {field.name}"
        )
        raise CommandError(message)
    operand = side.find(field.name)
    if operand is None:
        raise side.unknown(field.name)
    return operand
