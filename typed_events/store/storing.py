"""STORE, DELETE and BATCH: events judged and encoded here, then stored by the writer."""

from collections.abc import Sequence
from dataclasses import dataclass

from typed_events.errors import CommandError
from typed_events.language.commands import Delete, Position, Store
from typed_events.store.encoding import rows_of
from typed_events.store.submission import Row, Unit
from typed_events.store.writer import Writer
from typed_events.types.stored_types import StoredTypes


class HeldBackError(CommandError):
    """An event was not stored since another of its batch and context was refused."""

    def __init__(self, context: str) -> None:
        """Name the context."""
        super().__init__(f"not stored, as another event of context {context} was refused")


@dataclass(slots=True)
class Outcome:
    """What became of an event: its position, or why it was not stored."""

    store: Store | Delete
    position: Position | None = None
    error: BaseException | None = None


def store_each(
    stores: Sequence[Store | Delete], types: StoredTypes, writer: Writer
) -> list[Outcome]:
    """Store events, in this order, each by itself.

    Raises:
        BusyError: None was stored.
        ShardlogError: It is not known which were stored.
    """
    rows = rows_of(stores, types)
    units = [Unit((row,)) for row in rows if isinstance(row, Row)]
    if units:
        writer.store(units)
    remaining = iter(units)
    return [
        _outcome_of(store, next(remaining)) if isinstance(row, Row) else Outcome(store, error=row)
        for store, row in zip(stores, rows, strict=True)
    ]


def _outcome_of(store: Store | Delete, unit: Unit) -> Outcome:
    """Return what became of the only event of a unit."""
    if unit.error is not None:
        return Outcome(store, error=unit.error)
    return Outcome(store, unit.positions[0])


def store_batch(
    stores: Sequence[Store | Delete], types: StoredTypes, writer: Writer
) -> list[Outcome]:
    """Store events, of each context all or none.

    Raises:
        BusyError: None was stored.
        ShardlogError: It is not known which were stored.
    """
    by_context: dict[str, list[int]] = {}
    for place, store in enumerate(stores):
        by_context.setdefault(store.context, []).append(place)
    rows = rows_of(stores, types)
    outcomes = [Outcome(store) for store in stores]
    submitted: list[tuple[list[int], Unit]] = []
    for places in by_context.values():
        taken = [row for place in places if isinstance(row := rows[place], Row)]
        if len(taken) == len(places):
            submitted.append((places, Unit(taken)))
            continue
        for place in places:
            error = rows[place]
            if isinstance(error, Row):
                error = HeldBackError(stores[place].context)
            outcomes[place].error = error
    if submitted:
        writer.store([unit for _, unit in submitted])
    for places, unit in submitted:
        for number, place in enumerate(places):
            outcomes[place].error = unit.error
            if unit.error is None:
                outcomes[place].position = unit.positions[number]
    return outcomes
