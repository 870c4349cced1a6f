"""What commands that write, and those that show types, are answered. Rows are made when taken."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from typed_events.answer import Answer, Status, counted
from typed_events.language.commands import Position
from typed_events.refusals import message_of, status_of
from typed_events.store.storing import HeldBackError, Outcome
from typed_events.types.event_type import EventType, ttl_text
from typed_events.types.stored_types import StoredType, StoredTypes


def _schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


_ID: Final = _schema({"id": pa.string()})
_BATCH: Final = _schema(
    {
        "context_id": pa.string(),
        "event_type": pa.string(),
        "id": pa.string(),
        "status": pa.string(),
        "message": pa.string(),
    }
)
_TIME: Final[pa.DataType] = pa.timestamp("us", "UTC")
_TYPES: Final = _schema(
    {
        "event_type": pa.string(),
        "version": pa.int32(),
        "fields": pa.int32(),
        "ttl": pa.string(),
        "defined": _TIME,
    }
)
_FIELDS: Final = _schema(
    {"version": pa.int32(), "field": pa.string(), "type": pa.string(), "defined": _TIME}
)


def stored_answer(position: Position) -> Answer:
    """Answer a STORE."""
    place = str(position)
    return Answer(message=f"stored at {place}", schema=_ID, batches=_row_of_id(place))


def batch_answer(outcomes: Sequence[Outcome]) -> Answer:
    """Answer a BATCH: a row for each of its events; the status of the first that was refused."""
    errors = [outcome.error for outcome in outcomes]
    messages = [None if error is None else message_of(error) for error in errors]
    columns: dict[str, list[Any]] = {
        "context_id": [outcome.store.context for outcome in outcomes],
        "event_type": [outcome.store.event_type for outcome in outcomes],
        "id": [str(outcome.position) if outcome.position else None for outcome in outcomes],
        "status": [str(Status.OK if error is None else status_of(error)) for error in errors],
        "message": messages,
    }
    stored = messages.count(None)
    answer = Answer(
        message=f"stored {counted(stored, 'event')}", schema=_BATCH, batches=_rows(_BATCH, columns)
    )
    refused = [error for error in errors if error is not None]
    if refused:
        first = next(error for error in refused if not isinstance(error, HeldBackError))
        answer.status = status_of(first)
        of_all = f"{stored:,} of {counted(len(outcomes), 'event')}"
        answer.message = f"stored {of_all}: {message_of(first)}"
    return answer


def deleted_answer(position: Position) -> Answer:
    """Answer a DELETE; whether the row was there is not told."""
    place = str(position)
    return Answer(message=f"deleted at {place}", schema=_ID, batches=_row_of_id(place))


def defined_answer(stored: StoredType, *, is_new: bool) -> Answer:
    """Answer a DEFINE."""
    event_type = stored.event_type
    name = f"{event_type.name} version {event_type.version}"
    message = f"defined {name}" if is_new else f"{name} has these fields already"
    return Answer(message=f"{message}{_of_state(event_type)}")


def _of_state(event_type: EventType) -> str:
    return f", state with TTL {ttl_text(event_type.ttl_s)}" if event_type.is_state else ""


def types_answer(types: StoredTypes) -> Answer:
    """Answer LIST TYPES: the newest version of each."""
    newest = [types.type_of(name) for name in types.names]
    columns: dict[str, list[Any]] = {
        "event_type": [stored.event_type.name for stored in newest],
        "version": [stored.event_type.version for stored in newest],
        "fields": [len(stored.event_type.fields) for stored in newest],
        "ttl": [
            ttl_text(stored.event_type.ttl_s) if stored.event_type.is_state else None
            for stored in newest
        ],
        "defined": [stored.defined_us for stored in newest],
    }
    message = counted(len(newest), "type") if newest else "no types yet: DEFINE makes one"
    return Answer(message=message, schema=_TYPES, batches=_rows(_TYPES, columns))


def type_answer(versions: Sequence[StoredType]) -> Answer:
    """Answer DESCRIBE: each field of each version, the newest version first."""
    rows = [
        (stored.event_type.version, name, str(kind), stored.defined_us)
        for stored in reversed(versions)
        for name, kind in stored.event_type.fields.items()
    ]
    values = [list(column) for column in zip(*rows, strict=True)]
    columns: dict[str, list[Any]] = dict(zip(_FIELDS.names, values, strict=True))
    newest = versions[-1].event_type
    message = f"{newest.name}, newest version {newest.version}{_of_state(newest)}"
    return Answer(message=message, schema=_FIELDS, batches=_rows(_FIELDS, columns))


def _row_of_id(place: str) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": [place]}, schema=_ID)


def _rows(schema: pa.Schema, columns: Mapping[str, list[Any]]) -> Iterator[pa.RecordBatch]:
    if any(columns.values()):
        yield pa.RecordBatch.from_pydict({**columns}, schema=schema)
