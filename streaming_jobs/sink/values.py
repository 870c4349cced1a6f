"""From values of a job's columns to those of the log, whole columns at a time.

What would lose something is refused by its column, in the task that meets it.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core import UNITS_PER_SECOND, InvalidRequestError, Unit
from streaming_jobs.common.timestamps import as_timestamps

KEY_BYTES: Final = 4
_CREATED: Final = 0
_NO_TIME: Final = -1
_KEY: Final = pa.binary(KEY_BYTES)
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")
# Spark's timestamps count microseconds: what a coarser unit is cut to by Spark's date_trunc.
_CUTS: Final[dict[Unit, str]] = {"s": "second", "ms": "millisecond"}

# An Arrow array of any type; the stubs know none that casts and computes take alike.
Column = Any
_compute: Any = pc


def checked(
    batch: pa.RecordBatch, name: str, convert: Callable[[Column], Column] | None = None
) -> Column:
    """Return a converted column; refuse nulls, and values that do not fit.

    Whole numbers need no conversion: the log casts them.
    """
    column = batch.column(name)
    if column.null_count:
        message = f"column {name!r} holds nulls; each row needs one"
        raise InvalidRequestError(message)
    return column if convert is None else fitted(batch, name, convert)


def fitted(batch: pa.RecordBatch, name: str, convert: Callable[[Column], Column]) -> Column:
    """Return a converted column; refuse values that do not fit."""
    try:
        return convert(batch.column(name))
    except pa.ArrowInvalid as error:
        message = f"column {name!r} does not fit the stream without loss: {error}"
        raise InvalidRequestError(message) from error


def as_time(name: str, unit: Unit) -> Callable[[Column], Column]:
    """Return what turns a column of this name into times of a unit; numbers are times already."""

    def convert(column: Column) -> Column:
        if not pa.types.is_timestamp(column.type):
            return column
        assert unit != "sequence", "mapping_of refuses it"
        try:
            times = pc.cast(column, pa.timestamp(unit, column.type.tz))
        except pa.ArrowInvalid as error:
            if unit not in _CUTS:
                raise
            message = (
                f"{error}; write to a stream made with unit=us, "
                f"or date_trunc('{_CUTS[unit]}', {name})"
            )
            raise pa.ArrowInvalid(message) from error
        return pc.cast(times, pa.int64())

    return convert


def as_secondary(column: Column) -> Column:
    """Return integer keys as ids; bytes are big-endian, as Kafka's IntegerSerializer writes."""
    if pa.types.is_integer(column.type):
        return _compute.cast(column, pa.int32())
    if not len(column):
        return pa.array([], pa.int32())
    try:
        fixed = _compute.cast(column, _KEY)
    except pa.ArrowInvalid as error:
        message = (
            f"{error}; an id is an integer, as a key {KEY_BYTES} bytes, big-endian: cast others, "
            "or select primary, secondary, value and the key beside them"
        )
        raise pa.ArrowInvalid(message) from error
    numbers = np.frombuffer(
        fixed.buffers()[1], dtype=">i4", count=len(fixed), offset=KEY_BYTES * fixed.offset
    )
    return pa.array(numbers.astype(np.int32))


def as_headers(column: Column) -> Column:
    """Return headers, of which each is there and has a key; the log stores those."""
    headers = column.flatten()
    if headers.null_count or headers.field("key").null_count:
        fault = "a null" if headers.null_count else "a header whose key is null"
        message = f"{fault} is among the headers; filter(headers, h -> h.key is not null) drops it"
        raise pa.ArrowInvalid(message)
    return column


def now_in(unit: Unit, now_ns: int, rows: int) -> Column:
    """Return a moment as the time of so many rows."""
    return pa.array(np.full(rows, now_ns // (10**9 // UNITS_PER_SECOND[unit]), np.int64))


def own_times(batch: pa.RecordBatch, primary: Column, unit: Unit) -> tuple[Column, Column]:
    """Return the timestamps that rows bring beside their primary, in ms, and their kinds.

    A time that only says the primary again, as the source shows it where a row has none of its
    own, is not stored; one that is kept has a whole number of milliseconds.

    Raises:
        InvalidRequestError: A time does not fit, or says that the primaries count another unit.
    """
    times = batch.column("timestamp")
    if "timestampType" in batch.schema.names:
        kinds = fitted(batch, "timestampType", lambda column: pc.cast(column, pa.int8()))
    else:
        kinds = pc.cast(pa.nulls(len(times)), pa.int8())
    if unit != "sequence":
        primary_times = as_timestamps(pc.cast(primary, pa.int64()), unit)
        same = _compute.fill_null(_compute.equal(times, primary_times), fill_value=False)
        created = _compute.fill_null(_compute.equal(kinds, _CREATED), fill_value=True)
        says_it_again = _compute.and_(same, created)
        _refuse_sequence(times, kinds, unit)
        others = _compute.and_(_compute.invert(same), created)
        _refuse_other_units(primary.filter(others), times.filter(others), unit)
        times = _compute.if_else(says_it_again, pa.scalar(None, times.type), times)
        kinds = _compute.if_else(says_it_again, pa.scalar(None, pa.int8()), kinds)
    try:
        return _compute.cast(_compute.cast(times, _MILLISECONDS), pa.int64()), kinds
    except pa.ArrowInvalid as error:
        message = (
            "column 'timestamp' does not fit the stream without loss: beside a primary it has "
            f"whole milliseconds, as date_trunc('millisecond', timestamp) cuts it: {error}"
        )
        raise InvalidRequestError(message) from error


def _refuse_sequence(times: Column, kinds: Column, unit: Unit) -> None:
    """Refuse rows as the source shows those of a sequence: no time, and a kind that says so."""
    is_sequence = _compute.and_(_compute.equal(kinds, _NO_TIME), times.is_null())
    if _compute.any(is_sequence).as_py():
        _refuse_unit("sequence", unit)


def _refuse_other_units(primary: Column, times: Column, unit: Unit) -> None:
    """Refuse numbers beside which a time stands as the source shows it in another unit.

    The time 0 says nothing: it is what many write for none, and a few nanoseconds are cut to it.
    """
    numbers = pc.cast(primary, pa.int64())
    tells = _compute.not_equal(pc.cast(times, pa.int64()), 0)
    for other in UNITS_PER_SECOND if len(times) else ():
        is_equal = _compute.and_(tells, _compute.equal(times, as_timestamps(numbers, other)))
        if _compute.any(is_equal).as_py():
            _refuse_unit(other, unit)


def _refuse_unit(counted: Unit, unit: Unit) -> NoReturn:
    says = "no time" if counted == "sequence" else f"a time that they give in {counted}"
    counts = "a sequence" if counted == "sequence" else counted
    message = (
        f"the timestamp beside some primaries says {says}: they count {counts}, and the stream "
        f"{unit}; write to a stream made with unit={counted} (shardlog drop takes an empty one "
        "away that was made otherwise), or leave timestamp and timestampType out"
    )
    raise InvalidRequestError(message)
