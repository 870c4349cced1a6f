"""The schema dictionary: a shard's own numbers of the schemas by which its payloads were written.

    s 0 <number>                     the schema: registry id, fingerprint, text
    s 1 <registry id, fingerprint>   its number
    m schemas                        how many have one: those from 0 to before it

Blocks and late rows know the numbers; what is read shows the registry's id and the fingerprint.
An entry is written with the first rows of its schema, in their WriteBatch, and never changed or
removed, whatever becomes of the rows. A schema is told by its registry id and its fingerprint:
where a registry was made anew and gives an old id to another schema, that is another entry.

`SchemaNumbers` is the writer's; the shard's append lock guards it. It remembers so many schemas,
by their identity and without their texts. Readers look numbers up in their own view, so that all
of a read is of one moment, and texts only when they are asked for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from storage_core.engine.key_value import Batch
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.keys import INT32_MAX
from storage_core.format.record import Rows
from storage_core.format.row_columns import SCHEMA
from storage_core.format.schema_entry import (
    SchemaEntry,
    decode_schema,
    decode_schema_number,
    encode_schema,
    encode_schema_number,
    schema_key,
    schema_number_key,
)
from storage_core.format.shard_state import KEY_SCHEMAS, encode_int
from storage_core.platform.arrow import distinct, int_array

RECENT_SCHEMAS_MAX: Final = 2**10

Identity = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class WithSchemas:
    """Rows whose schemas have numbers, and the schemas among them that had none before."""

    rows: Rows
    new: Mapping[SchemaEntry, int] = field(default_factory=dict)


class SchemaNumbers:
    """The numbers of schemas, as the writer of a shard gives them."""

    def __init__(
        self, load: Callable[[list[bytes]], list[bytes | None]], stream: str, shard: int
    ) -> None:
        """Look up in the writer's store, by `load`, what is not remembered."""
        self._load = load
        self._stream = stream
        self._shard = shard
        self._recent: dict[Identity, int] = {}

    def number(self, rows: Rows, assigned: int) -> WithSchemas:
        """Return rows with their schemas' numbers; nothing changes before `accept`.

        Args:
            rows: Rows whose column of schemas says which of `rows.schemas` each has.
            assigned: How many schemas have a number.

        Raises:
            InvalidRequestError: There is no number left for a schema.
            CorruptionError: An entry is not an assigned number.
        """
        column, schemas = rows.envelope[SCHEMA], rows.schemas
        used: list[Any] = [0] if len(schemas) == 1 else distinct(column)[0].to_pylist()
        table = np.zeros(len(schemas), dtype=np.int32)
        new: dict[SchemaEntry, int] = {}
        given_here: dict[Identity, int] = {}
        for position in used:
            entry = schemas[position]
            number = given_here.get(entry.identity)
            if number is None:
                number = self._number_of(entry.identity, assigned)
            if number is None:
                number = new[entry] = assigned + len(new)
            table[position] = given_here[entry.identity] = number
        if assigned + len(new) > INT32_MAX:
            message = f"the shard has numbered {assigned} schemas, and can number no more"
            raise InvalidRequestError(message, stream=self._stream, shard=self._shard)
        if len(schemas) == 1 and not table[0]:
            return WithSchemas(rows.with_schemas(column), new)
        return WithSchemas(rows.with_schemas(int_array(table).take(column)), new)

    def accept(self, new: Mapping[SchemaEntry, int]) -> None:
        """Remember schemas whose entries were written."""
        for entry, number in new.items():
            self._remember(entry.identity, number)

    def _number_of(self, identity: Identity, count: int) -> int | None:
        number = self._recent.get(identity)
        if number is None and count:
            (value,) = self._load([schema_number_key(*identity)])
            if value is not None:
                number = self._assigned_number(identity, value, count)
                self._remember(identity, number)
        return number

    def _assigned_number(self, identity: Identity, value: bytes, count: int) -> int:
        number = decode_schema_number(value)
        if number is None or not 0 <= number < count:
            message = (
                f"schema {identity[0]} with fingerprint {identity[1].hex()} has {value!r} for its "
                f"number, but only {count} were assigned"
            )
            raise CorruptionError(message, stream=self._stream, shard=self._shard)
        return number

    def _remember(self, identity: Identity, number: int) -> None:
        if len(self._recent) >= RECENT_SCHEMAS_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[identity] = number


def checked_schemas(schemas: object) -> tuple[SchemaEntry, ...]:
    """Return the schemas that a caller names, or refuse them."""
    entries = tuple(schemas) if isinstance(schemas, Iterable) else (schemas,)
    for entry in entries:
        if type(entry) is not SchemaEntry:
            message = f"schemas are SchemaEntry values, not {entry!r}"
            raise InvalidRequestError(message)
    return entries


def put_new_schemas(batch: Batch, new: Mapping[SchemaEntry, int], assigned: int) -> int:
    """Add the entries of new schemas to a batch; return how many have a number then."""
    for entry, number in new.items():
        batch.put(schema_key(number), encode_schema(entry))
        batch.put(schema_number_key(*entry.identity), encode_schema_number(number))
    if new:
        batch.put(KEY_SCHEMAS, encode_int(assigned + len(new)))
    return assigned + len(new)


def schema_of(number: int, assigned: int, value_at: Callable[[bytes], bytes | None]) -> SchemaEntry:
    """Return the schema of a number.

    Args:
        number: What a row has.
        assigned: How many schemas have a number.
        value_at: Looks an entry up in one moment of the store.

    Raises:
        CorruptionError: It was never assigned, or its entry is missing or damaged.
    """
    if not 0 <= number < assigned:
        message = f"a row has schema number {number}, but only {assigned} were assigned"
        raise CorruptionError(message)
    value = value_at(schema_key(number))
    if value is None:
        message = f"schema number {number} was assigned, and its entry is missing"
        raise CorruptionError(message)
    try:
        return decode_schema(value)
    except CorruptionError as error:
        message = f"schema number {number}: {error.message}"
        raise CorruptionError(message) from error
