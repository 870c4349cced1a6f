"""What Delta says of the values in a file, so that queries pass over files: from its footer.

    {"numRecords": n, "minValues": {...}, "maxValues": {...}, "nullCount": {...}}

They are of `primary`, `key` or `secondary`, `address`, and of up to `COLUMNS_MAX` further columns
in the table's order. A bound that might be false is left out, which means that nothing is known:

    numbers, dates, short decimals    as they are; of floats none where one is a NaN, or infinite
    strings                           the first 32 characters, of the largest one what follows
    timestamps                        milliseconds, the largest rounded up
    booleans, bytes, long decimals    none; nor of years before 1 and after 9999
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.parts.row_groups import PartFile

COLUMNS_MAX: Final = 32
STRING_CHARACTERS_MAX: Final = 32
_FIRST: Final = ("primary", "key", "secondary", "address")
_PARTITION: Final = "shard"
# A reader may take a decimal for a double, which has no more digits.
_DECIMAL_DIGITS_MAX: Final = 15
_LAST_CHARACTER: Final = "\U0010ffff"
_BEFORE_SURROGATES, _BEHIND_SURROGATES = 0xD7FF, 0xE000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = (
    (date.min - _EPOCH.date()).days,
    (date.max - _EPOCH.date()).days,
)
_MS_MIN: Final = _DAYS[0] * 86_400_000
_MS_MAX: Final = (_DAYS[1] + 1) * 86_400_000 - 1
_PER_MS: Final = {"ms": 1, "us": 1000}
_types: Any = pa.types
_compute: Any = pc
# The least and the largest value as JSON; None where nothing is known.
_Bounds = tuple[str | None, str | None]


def statistics_of(file: PartFile, table: pa.Schema) -> str:
    """Return what Delta says of a file, as JSON.

    Args:
        file: A file with a table's columns.
        table: The table's columns.

    Raises:
        CorruptionError: The file is damaged.
    """
    metadata = file.footer.metadata
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    nulls: dict[str, str] = {}
    bounds: dict[str, _Bounds] = {}
    for column in _columns(table):
        if column.name not in places:
            nulls[column.name] = str(metadata.num_rows)
            continue
        place = places[column.name]
        statistics = [group.column(place).statistics for group in groups]
        if any(of is None or not of.has_null_count for of in statistics):
            continue
        nulls[column.name] = str(sum(of.null_count for of in statistics))
        filled = [of for of, group in zip(statistics, groups, strict=True) if _has_any(of, group)]
        if filled and all(of.has_min_max for of in filled):
            bounds[column.name] = _bounds(file, column.name, filled)
    least = {name: low for name, (low, _) in bounds.items() if low is not None}
    most = {name: high for name, (_, high) in bounds.items() if high is not None}
    texts = (str(metadata.num_rows), _object(least), _object(most), _object(nulls))
    return _object(
        dict(zip(("numRecords", "minValues", "maxValues", "nullCount"), texts, strict=True))
    )


def _has_any(statistics: Any, group: Any) -> bool:  # noqa: ANN401 - the library's
    return bool(statistics.null_count < group.num_rows)


def _object(members: dict[str, str]) -> str:
    """Return an object of JSON whose values are JSON already."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


def _columns(table: pa.Schema) -> Iterator[Any]:
    """Yield the columns that there are statistics of."""
    for name in _FIRST:
        if name in table.names:
            yield table.field(name)
    count = 0
    for column in table:
        if column.name not in (*_FIRST, _PARTITION) and _has_order(column.type):
            yield column
            count += 1
        if count == COLUMNS_MAX:
            return


def _has_order(data_type: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    return not _types.is_nested(data_type) and not _types.is_binary(data_type)


def _bounds(file: PartFile, name: str, statistics: list[Any]) -> _Bounds:
    """Return the bounds of a column of which each row group has some."""
    data_type: Any = file.footer.schema.field(name).type
    raw = min(of.min_raw for of in statistics), max(of.max_raw for of in statistics)
    bounds: _Bounds = None, None
    if _types.is_floating(data_type):
        if not _has_nan(file, name):
            bounds = _of_floats(*raw)
    elif _types.is_string(data_type) or _types.is_dictionary(data_type):
        bounds = _of_strings(*raw)
    elif _types.is_decimal(data_type):
        if data_type.precision <= _DECIMAL_DIGITS_MAX:
            least, most = min(of.min for of in statistics), max(of.max for of in statistics)
            bounds = _decimal(least), _decimal(most)
    elif _types.is_date(data_type):
        bounds = _day(raw[0]), _day(raw[1])
    elif _types.is_timestamp(data_type):
        per_ms = _PER_MS[data_type.unit]
        bounds = _timestamp(raw[0] // per_ms), _timestamp(-(-raw[1] // per_ms))
    elif _types.is_integer(data_type):
        bounds = str(raw[0]), str(raw[1])
    return bounds


def _has_nan(file: PartFile, name: str) -> bool:
    """Tell whether a column has a NaN, which no bounds of Parquet's tell."""
    groups = range(file.footer.row_groups)
    columns = (file.read(group, [name]).column(name) for group in groups)
    return any(_compute.any(_compute.is_nan(column)).as_py() for column in columns)


def _of_floats(least: float, most: float) -> _Bounds:
    return (
        repr(least) if isfinite(least) else None,
        repr(most) if isfinite(most) else None,
    )


def _of_strings(least: bytes, most: bytes) -> _Bounds:
    """Return bounds of UTF-8; the first characters of the least one are at or below it."""
    low, high = least.decode(errors="ignore")[:STRING_CHARACTERS_MAX], _text_at_least(most)
    return json.dumps(low), None if high is None else json.dumps(high)


def _text_at_least(most: bytes) -> str | None:
    """Return a short text that no text up to `most` is above; None if there is none."""
    try:
        text = most.decode()
    except UnicodeDecodeError:
        return None
    if len(text) <= STRING_CHARACTERS_MAX:
        return text
    # Nothing is above the last character: the one before it is raised.
    prefix = text[:STRING_CHARACTERS_MAX].rstrip(_LAST_CHARACTER)
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    if following > _BEFORE_SURROGATES and following < _BEHIND_SURROGATES:
        following = _BEHIND_SURROGATES
    return prefix[:-1] + chr(following)


def _decimal(value: Decimal) -> str:
    return f"{value:f}"


def _day(days: int) -> str | None:
    if not _DAYS[0] <= days <= _DAYS[1]:
        return None
    return json.dumps((_EPOCH.date() + timedelta(days=days)).isoformat())


def _timestamp(ms: int) -> str | None:
    if not _MS_MIN <= ms <= _MS_MAX:
        return None
    moment = (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    return json.dumps(moment.replace("+00:00", "Z"))
