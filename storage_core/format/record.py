"""Records as callers see them, and the column batches the log works in.

`Rows` is the one shape in which records move through the log: numpy columns for what is
computed on, Arrow arrays for what is only carried. `rows_from_arrow` is the single door for
batches from outside; it takes the exact types or what casts to them without loss.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import KEY_BYTES_MAX, NULL_KEY_NUMBER
from storage_core.format.row_columns import ENVELOPE, SCHEMA, SCHEMA_TYPE, TYPES
from storage_core.format.schema_entry import SchemaEntry
from storage_core.platform.arrow import Array, binary_sizes, entry_sizes, int_array
from storage_core.platform.name_suggestions import unknown_names

# A caller's, by name.
Columns = Mapping[str, Array]
_REQUIRED: Final = {name: TYPES[name] for name in ("primary", "secondary")}
_INPUT: Final[frozenset[str]] = frozenset((*_REQUIRED, "payload", "version", *ENVELOPE, SCHEMA))


class State:
    """What a row was found to be when it was appended, as blocks and the column `state` hold it.

    Plain integers: numpy compares a column with an enum's member seven times slower.
    """

    NORMAL: Final = 0
    LATE: Final = 1
    AHEAD: Final = 2
    EXPIRED: Final = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `payload` None is a tombstone, `late` means late or ahead.

    In a stream with a key dictionary it belongs to `key`, and `secondary` is None; in others
    `key` says nothing.
    """

    primary: int
    secondary: int | None
    version: int
    address: int
    payload: bytes | None
    late: bool
    shard: int
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one shard as columns of equal length.

    `version` None means all zero. `envelope` holds only the columns that were given. Where rows
    belong to keys, `secondary` is -1 until their shard numbers them. A column `schema` says which
    of `schemas` a row has until their shard numbers these, and then the number.
    """

    secondary: npt.NDArray[np.int32]
    primary: npt.NDArray[np.int64]
    version: npt.NDArray[np.uint16] | None
    payload: Array
    envelope: Mapping[str, Array]
    schemas: tuple[SchemaEntry, ...] = ()

    def __len__(self) -> int:
        return len(self.primary)

    def with_secondary(self, secondary: npt.NDArray[np.int32]) -> "Rows":
        """Return the same records under other secondaries."""
        return Rows(
            secondary, self.primary, self.version, self.payload, self.envelope, self.schemas
        )

    def with_schemas(self, numbers: Array) -> "Rows":
        """Return the same records with the numbers of their schemas."""
        envelope = {**self.envelope, SCHEMA: numbers}
        return Rows(self.secondary, self.primary, self.version, self.payload, envelope)

    def slice(self, start: int, end: int) -> "Rows":
        """Return the records from `start` to before `end`, without copying."""
        return Rows(
            self.secondary[start:end],
            self.primary[start:end],
            None if self.version is None else self.version[start:end],
            self.payload.slice(start, end - start),
            {name: column.slice(start, end - start) for name, column in self.envelope.items()},
            self.schemas,
        )

    def take(self, positions: npt.NDArray[np.int64]) -> "Rows":
        """Return the records at these positions."""
        chosen = int_array(positions)
        return Rows(
            self.secondary[positions],
            self.primary[positions],
            None if self.version is None else self.version[positions],
            self.payload.take(chosen),
            {name: column.take(chosen) for name, column in self.envelope.items()},
            self.schemas,
        )

    def payload_sizes(self) -> npt.NDArray[np.int32]:
        """Return the length of each payload; a tombstone's is 0."""
        return binary_sizes(self.payload)

    def sizes(self) -> npt.NDArray[np.integer[Any]]:
        """Return how many bytes each record has beside its numbers: payload, key and headers."""
        sizes: npt.NDArray[np.integer[Any]] = self.payload_sizes()
        for column in self.envelope.values():
            if pa.types.is_binary(column.type):
                sizes = sizes + binary_sizes(column).astype(np.int64)
            elif pa.types.is_list(column.type):
                sizes = sizes + entry_sizes(column)
        return sizes


def rows_from_arrow(
    batch: object,
    payload_bytes_max: int,
    *,
    has_keys: bool = False,
    schemas: tuple[SchemaEntry, ...] = (),
) -> Rows:
    """Return a caller's batch as rows, or refuse it whole.

    Args:
        batch: The caller's.
        payload_bytes_max: A larger payload is refused.
        has_keys: Whether rows belong to the keys in column `key`; they have no secondary then.
        schemas: Which schemas the column `schema` counts through.

    Raises:
        InvalidRequestError: A column is missing, unknown, null where it may not be, or does
            not cast without loss; or a payload is too large. The message names the column.
    """
    if isinstance(batch, pa.Table):
        batch = _single_batch(batch)
    if not isinstance(batch, pa.RecordBatch):
        message = f"a batch must be a pyarrow RecordBatch or Table, not {type(batch).__name__}"
        raise InvalidRequestError(message)
    names = batch.schema.names
    # Each is asked for once: by name that costs as much as some rows.
    given = dict(zip(names, batch.columns, strict=True))
    if unknown := sorted(given.keys() - _INPUT):
        raise InvalidRequestError(unknown_names("columns", unknown, sorted(_INPUT)))
    if len(given) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        message = f"repeated columns: {', '.join(repeated)}"
        raise InvalidRequestError(message)
    version = None
    if "version" in given:
        version = _numbers(given, "version", pa.uint16())
        if not version.any():
            version = None
    present = [(name, kind) for name, kind in ENVELOPE.items() if name in given]
    envelope = {name: _column(given, name, kind) for name, kind in present}
    column = _schema_column(given, schemas) if SCHEMA in given or schemas else None
    if column is not None:
        envelope[SCHEMA] = column
    rows = Rows(
        _unnumbered(given, len(batch)) if has_keys else _numbers(given, "secondary", pa.int32()),
        _numbers(given, "primary", pa.int64()),
        version,
        _column(given, "payload", pa.binary()),
        envelope,
        schemas if column is not None else (),
    )
    check_payload_sizes(rows, payload_bytes_max)
    if "headers" in rows.envelope:
        _check_headers(rows.envelope["headers"])
    return rows


def _unnumbered(columns: Columns, count: int) -> npt.NDArray[np.int32]:
    """Return what stands for the secondaries of rows whose keys have no numbers yet."""
    if "key" not in columns:
        message = "column 'key' is missing: rows of a stream with a key dictionary belong to keys"
        raise InvalidRequestError(message)
    if "secondary" in columns and columns["secondary"].null_count < count:
        message = (
            "column 'secondary' holds ids: rows of a stream with a key dictionary belong to keys; "
            "leave it out, or null"
        )
        raise InvalidRequestError(message)
    keys = _column(columns, "key", pa.binary())
    sizes = binary_sizes(keys)
    if keys.null_count:
        sizes = np.where(keys.is_valid().to_numpy(zero_copy_only=False), sizes, np.int32(0))
    if len(sizes) and int(sizes.max()) > KEY_BYTES_MAX:
        row = int(sizes.argmax())
        message = f"key of row {row} has {int(sizes[row])} bytes; {KEY_BYTES_MAX} is the most"
        raise InvalidRequestError(message)
    return np.full(count, NULL_KEY_NUMBER, dtype=np.int32)


def _schema_column(columns: Columns, schemas: tuple[SchemaEntry, ...]) -> "Array | None":
    """Return which of a caller's schemas each row has; None where none has any."""
    column = _column(columns, SCHEMA, SCHEMA_TYPE)
    if column.null_count == len(column):
        return None
    # A row without one counts as 0: where any row has one, that is no bound that refuses.
    numbers = (column.fill_null(0) if column.null_count else column).to_numpy()
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0 or most >= len(schemas):
        outside = least if least < 0 else most
        message = (
            f"column 'schema' has {outside}, and {len(schemas)} schemas are given: "
            "it counts through `schemas` from 0, null for none"
        )
        raise InvalidRequestError(message)
    return column


def check_payload_sizes(rows: Rows, payload_bytes_max: int) -> None:
    """Refuse rows of which one payload is too large, naming its position."""
    if not len(rows):
        return
    sizes = rows.payload_sizes()
    if int(sizes.max()) > payload_bytes_max:
        row = int(sizes.argmax())
        message = (
            f"payload of row {row} has {int(sizes[row])} bytes; "
            f"payload_bytes_max is {payload_bytes_max}"
        )
        raise InvalidRequestError(message)


def _check_headers(column: Array) -> None:
    """Refuse keys of headers that are no text; Arrow lets any bytes pass for one."""
    keys = pc.struct_field(pc.list_flatten(column), [0])
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        message = f"a header's key is not UTF-8 text: {error}"
        raise InvalidRequestError(message) from error


def no_rows() -> Rows:
    """Return no rows at all."""
    empty = np.empty(0, dtype=np.int64)
    return Rows(empty.astype(np.int32), empty, None, pa.array([], pa.binary()), {})


def _single_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    message = "the table does not fit one Arrow batch; append it in parts"
    raise InvalidRequestError(message)


def _column(columns: Columns, name: str, kind: pa.DataType) -> Array:
    column = columns.get(name)
    if column is None:
        message = f"column {name!r} is missing"
        raise InvalidRequestError(message)
    if column.type == kind:
        return column
    try:
        return pc.cast(column, kind, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        message = f"column {name!r} of type {column.type} does not cast to {kind}: {error}"
        raise InvalidRequestError(message) from error


def _numbers(columns: Columns, name: str, kind: pa.DataType) -> Any:  # noqa: ANN401 - the kind says the dtype
    column = _column(columns, name, kind)
    if column.null_count:
        message = f"column {name!r} holds nulls"
        raise InvalidRequestError(message)
    return column.to_numpy(zero_copy_only=False)
