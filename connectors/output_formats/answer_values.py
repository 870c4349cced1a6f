"""The values of an answer's rows as text has them: JSON's own types, times as ISO.

A time is `2026-01-31T12:00:00Z`, with six digits of a second where they are not all 0; a date
is `2026-01-31`. Integers are numbers, all 64 bits of them. What JSON lacks is text: `nan`, bytes as
`base64:…`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from connectors.output_formats.values import plain_value
from storage_core.platform.python_values import to_python

_UTC: Final = "+00:00"
_untyped: Any = pa  # the stubs want to know what an array holds
Rows = list[dict[str, Any]]


def answer_rows(batch: pa.RecordBatch) -> Rows:
    """Return rows as JSON has them."""
    rows: Rows = to_python(batch)
    plain = {field.name: _conversion(field.type) for field in batch.schema}
    changed = {name: make for name, make in plain.items() if make is not None}
    if changed:
        for row in rows:
            for name, make in changed.items():
                row[name] = make(row[name])
    return rows


def with_iso_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose times are text."""
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    for field in batch.schema:
        if pa.types.is_timestamp(field.type):
            texts = map(iso_time, to_python(columns[field.name]))
            columns[field.name] = _untyped.array(texts, pa.string())
    rows: pa.RecordBatch = _untyped.RecordBatch.from_pydict(columns)
    return rows


def iso_time(moment: object) -> object:
    """Return a time as ISO, `Z` for UTC; what is no time of Python's as it is."""
    if not isinstance(moment, datetime):
        return moment
    text = moment.isoformat()
    return text.removesuffix(_UTC) + "Z" if text.endswith(_UTC) else text


def _conversion(kind: pa.DataType) -> Callable[[Any], object] | None:
    """Return what makes a column's values JSON's own; None where they are."""
    types = pa.types
    if types.is_timestamp(kind):
        return iso_time
    is_plain = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    if is_plain or types.is_string(kind) or types.is_large_string(kind):
        return None
    return plain_value
