"""Values read by fields: what the options ask for, and the schema and columns they come to.

    valueFormat    raw, the default: values are bytes; avro: their fields are columns
    readerSchema   by which schema they are read (schemas.py), or `latest`: the newest in the store
    mode           what becomes of a value that cannot be read, as from_avro has it

A frame keeps the schema it was loaded with, also one that was the newest. A stream goes on for
years and over restarts, so it needs a fixed one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from storage_core import InvalidRequestError, SchemaEntry
from storage_core.avro import AvroSchema, decode_batch, newest_schema
from storage_core.platform.name_suggestions import did_you_mean
from streaming_jobs.common.field_columns import CORRUPT_VALUE, columns_of
from streaming_jobs.common.field_types import field_columns, parsed_schema
from streaming_jobs.common.option_values import OptionValues, refuse
from streaming_jobs.common.schemas import LATEST_SCHEMA, RegistryAccess, schema_named
from streaming_jobs.source.requests import FieldMode, FieldRules, RowRules
from streaming_jobs.source.spark_columns import HEADERS, default_columns, known_columns

_OPTION: Final = "readerSchema"
_MODES: Final[tuple[FieldMode, ...]] = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
_RAW: Final = "value"
# What schemas of event types, and of JSON Schemas, are called (typed_events/types/event_type.py).
_OF_EVENTS: Final = "shardlog.events."
_NONE: Final[Any] = pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class FieldRequest:
    """What the options say of values.

    Attributes:
        schema: What names the schema, None for the newest.
        mode: What becomes of a value that cannot be read.
        registry: How a registry is reached.
        columns: The columns asked for, None for all.
        has_headers: Whether headers are among all.
    """

    schema: str | None
    mode: FieldMode
    registry: RegistryAccess
    columns: tuple[str, ...] | None
    has_headers: bool


def parse_field_request(
    values: OptionValues, columns: tuple[str, ...] | None, *, has_headers: bool
) -> FieldRequest:
    """Return what the options say, where `valueFormat` is `avro`."""
    text = values.text(_OPTION)
    mode = values.text("mode")
    chosen = next((one for one in _MODES if mode is not None and one == mode.strip().upper()), None)
    if mode is not None and chosen is None:
        refuse("mode", mode, " or ".join(_MODES))
    is_latest = text is None or text.strip().lower() == LATEST_SCHEMA
    return FieldRequest(
        None if is_latest else text,
        chosen or "FAILFAST",
        RegistryAccess.of(values),
        columns,
        has_headers,
    )


def reader_schema(
    request: FieldRequest,
    schemas: Callable[[], Iterable[Iterable[SchemaEntry]]],
    *,
    is_stream: bool,
) -> AvroSchema:
    """Return the schema by which values are read.

    Args:
        request: What the options say.
        schemas: Tells the schemas that the store has of each stream.
        is_stream: Whether it has to be a fixed one.

    Raises:
        InvalidRequestError: None is named and there is none, or a stream names none.
        UnavailableError: A registry has to be asked, and does not answer.
    """
    if request.schema is not None:
        return schema_named(request.schema, _OPTION, request.registry).schema
    newest = newest_schema(*schemas())
    if is_stream:
        raise InvalidRequestError(_no_fixed_schema(newest))
    if newest is None:
        message = (
            f"option {_OPTION}: the stream has no rows that came with a schema, so there is no "
            f"newest one; name one by option {_OPTION}, or read bytes with valueFormat=raw"
        )
        raise InvalidRequestError(message)
    return AvroSchema.stored(newest.text)


def _no_fixed_schema(newest: SchemaEntry | None) -> str:
    available = "the store has none yet"
    choices = "name a version of its subject, SUBJECT --version N, a file <name>.avsc, or its JSON"
    if newest is not None:
        name = AvroSchema.stored(newest.text).full_name
        available = f"the newest in the store is {name}"
        if name.startswith(_OF_EVENTS):
            # Their ids are versions, or of a JSON Schema: no registry has an Avro schema by them.
            choices = "name its JSON, which StreamReader.schemas() has, or a file <name>.avsc"
        elif newest.registry_id:
            available += (
                f", registry id {newest.registry_id} (shardlog schema show --id "
                f"{newest.registry_id})"
            )
    return (
        f"option {_OPTION}: a stream needs a fixed schema, so that restarts read alike; "
        f"{available}: {choices}"
    )


def with_fields(rules: RowRules, request: FieldRequest, schema: AvroSchema) -> RowRules:
    """Return rules with the columns that are shown of values read by a schema.

    Raises:
        InvalidRequestError: A column is not there, or no column can show a field.
    """
    if request.columns is None:
        wanted = [one.name for one in field_columns(schema)]
        own = [name for name in default_columns(has_headers=request.has_headers) if name != _RAW]
        columns = (*wanted, *own, *_corrupt(request))
    else:
        fields_there = columns_of(schema)
        own = [name for name in (*known_columns(), *_corrupt(request)) if name not in fields_there]
        _check_known(request.columns, fields_there, own, schema)
        wanted = [name for name in request.columns if name in fields_there]
        columns = request.columns
        if request.has_headers and HEADERS not in columns:
            columns = (*columns, HEADERS)
    fields = tuple(one.name for one in field_columns(schema, wanted))
    is_whole = CORRUPT_VALUE in columns or len(fields) == len(schema.fields)
    read_by = FieldRules(schema.text, schema.identity.hex(), fields, request.mode, is_whole)
    return replace(rules, columns=columns, fields=read_by)


def _corrupt(request: FieldRequest) -> tuple[str, ...]:
    return (CORRUPT_VALUE,) if request.mode == "PERMISSIVE" else ()


def _check_known(
    columns: Iterable[str], fields: Sequence[str], own: Sequence[str], schema: AvroSchema
) -> None:
    unknown = sorted(set(columns) - {*fields, *own})
    if CORRUPT_VALUE in unknown:
        message = f"option columns: {CORRUPT_VALUE} is there with mode=PERMISSIVE only"
        raise InvalidRequestError(message)
    if unknown:
        meant = did_you_mean(unknown, (*fields, *own))
        message = (
            f"option columns: no {', '.join(unknown)}{meant}; the fields of {schema.full_name} are "
            f"{', '.join(fields)}, and beside them there are {', '.join(own)}"
        )
        raise InvalidRequestError(message)


def check_reads_on(previous: str | None, fields: FieldRules) -> None:
    """Refuse to go on by a schema that cannot read what the one before it read.

    Args:
        previous: The text of the one before, None if nobody said.
        fields: How values are read from here on.

    Raises:
        InvalidRequestError: It cannot; the message says why.
    """
    new = parsed_schema(fields.schema)
    wanted = [one.field for one in field_columns(new, fields.columns)]
    why = "the checkpoint does not tell its text"
    if previous is not None:
        try:
            decode_batch(_NONE, parsed_schema(previous), reader=new, columns=wanted)
        except InvalidRequestError as error:
            why = error.message
        else:
            return
    message = (
        f"option {_OPTION}: the query has read by another schema until now, and this one does not "
        f"read on from it: {why}; name the old one, one that is compatible with it, or give the "
        "query a new checkpoint"
    )
    raise InvalidRequestError(message)
