"""Stores as rows: payloads judged by their types and encoded, in the caller's thread.

Many of one type are encoded together, a column at a time; where one of them does not fit they are
encoded one by one, so that each that does not fit has its own error.
"""

from collections.abc import Sequence
from typing import Any, Final

from storage_core import ShardlogError
from typed_events.errors import CommandError
from typed_events.language.commands import Delete, Store
from typed_events.language.literals import CONTEXT_BYTES_MAX
from typed_events.store.attached import digest_of
from typed_events.store.submission import Row
from typed_events.types.stored_types import StoredType, StoredTypes
from typed_events.types.values import PayloadError, bodies_of, fault_of

IDEMPOTENCY_BYTES_MAX: Final = 256
# Fewer events of a type are encoded one by one.
_COLUMNS_MIN: Final = 32


def rows_of(stores: Sequence[Store | Delete], types: StoredTypes) -> list[Row | ShardlogError]:
    """Return each store, or deletion, as a row, or why it is none."""
    rows: list[Row | ShardlogError | None] = [None] * len(stores)
    by_type: dict[tuple[str, int | None], list[int]] = {}
    for place, store in enumerate(stores):
        if isinstance(store, Delete):
            rows[place] = _deletion(store, types)
        else:
            by_type.setdefault((store.event_type, store.version), []).append(place)
    for (name, version), places in by_type.items():
        try:
            stored = types.type_of(name, version)
        except ShardlogError as error:
            for place in places:
                rows[place] = error
            continue
        some = [store for place in places if isinstance(store := stores[place], Store)]
        for place, row in zip(places, _rows_of_type(some, stored), strict=True):
            rows[place] = row
    return [row for row in rows if row is not None]


def _rows_of_type(stores: Sequence[Store], stored: StoredType) -> Sequence[Row | ShardlogError]:
    event_type = stored.event_type
    if len(stores) < _COLUMNS_MIN:
        return [_single_row(store, stored) for store in stores]
    errors: dict[int, ShardlogError] = {}
    try:
        bodies: list[Any] = bodies_of(event_type, [store.payload for store in stores]).to_pylist()
    except PayloadError:
        for place, store in enumerate(stores):
            if (fault := fault_of(event_type, store.payload)) is not None:
                errors[place] = PayloadError(0, fault, is_only=True)
        fit = [store for place, store in enumerate(stores) if place not in errors]
        bodies = bodies_of(event_type, [store.payload for store in fit]).to_pylist() if fit else []
    remaining = iter(bodies)
    return [
        errors[place] if place in errors else _row_of(store, next(remaining), stored)
        for place, store in enumerate(stores)
    ]


def _single_row(store: Store, stored: StoredType) -> Row | ShardlogError:
    body = stored.single_body.encode(store.payload)
    if body is not None:
        return _row_of(store, body, stored)
    fault = fault_of(stored.event_type, store.payload)
    if fault is None:
        message = "a payload was refused that is one of its type"
        raise AssertionError(message)
    return PayloadError(0, fault, is_only=True)


def _row_of(store: Store, body: bytes, stored: StoredType) -> Row | ShardlogError:
    if store.row is None and store.idempotency_key is None and not stored.event_type.is_state:
        # As most are.
        try:
            key = context_key(store.context)
        except CommandError as error:
            return error
        event_type = stored.event_type
        return Row(event_type.name, key, event_type.version, stored.entry, body, store.expect)
    try:
        row = Row(
            store.event_type,
            context_key(store.context),
            stored.event_type.version,
            stored.entry,
            body,
            store.expect,
        )
        if stored.event_type.is_state:
            _refuse_expect(store)
            row.state_id = _row_id(store.row)
        elif store.row is not None:
            message = f"{store.event_type} is a type of events, which have no rows: leave out ROW"
            raise CommandError(message)
        if store.idempotency_key is not None:
            row.idempotency_key = _idempotency_key(store.idempotency_key)
            row.digest = digest_of(store.payload, store.row)
    except ShardlogError as error:
        return error
    return row


def _deletion(delete: Delete, types: StoredTypes) -> Row | ShardlogError:
    """Return the tombstone of a row of state."""
    try:
        event_type = types.type_of(delete.event_type).event_type
        if not event_type.is_state:
            message = (
                f"{event_type.name} is a type of events, which are never deleted: DELETE is of "
                "rows of types AS STATE"
            )
            raise CommandError(message)
        row = Row(event_type.name, context_key(delete.context), event_type.version, None, None)
        row.state_id = _row_id(delete.row)
        if delete.idempotency_key is not None:
            row.idempotency_key = _idempotency_key(delete.idempotency_key)
            row.digest = digest_of(None, delete.row)
    except ShardlogError as error:
        return error
    return row


def _refuse_expect(store: Store) -> None:
    if store.expect != "any":
        message = (
            f"{store.event_type} is a type of state, whose rows change and expire: EXPECT counts "
            "events, so leave it out"
        )
        raise CommandError(message)


def _row_id(text: str | None) -> bytes:
    return _bytes_of("the id of a row", text, CONTEXT_BYTES_MAX) if text else b""


def context_key(context: str) -> bytes:
    """Return the key of a context's rows.

    Raises:
        CommandError: It is empty, too long, or no text.
    """
    return _bytes_of("a context", context, CONTEXT_BYTES_MAX)


def _idempotency_key(key: str) -> bytes:
    return _bytes_of("an idempotency key", key, IDEMPOTENCY_BYTES_MAX)


def _bytes_of(name: str, text: str, bytes_max: int) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        message = f"{name} is text of Unicode; half of a surrogate pair is none"
        raise CommandError(message) from error
    if not 0 < len(data) <= bytes_max:
        message = f"{name} has 1 to {bytes_max} bytes as UTF-8, not {len(data)}"
        raise CommandError(message)
    return data
