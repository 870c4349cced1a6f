"""What Delta says of the values in a file, so that queries pass over files: from its footer.

    {"numRecords": n, "minValues": {...}, "maxValues": {...}, "nullCount": {...}}

They are of the indexed columns alone: `primary`, `secondary`, `address`, and of up to `COLUMNS_MAX`
further columns that the table had when it was made. Of floats, booleans, bytes, long decimals and
what is nested there are none: a NaN is within no bounds that JSON has.

    integers, dates, short decimals    as they are
    strings                            the first 32 characters, of the largest one what follows
    timestamps                         milliseconds, the largest rounded up

IMPORTANT: a table names its indexed columns (`indexed_property`), and each of its files has both
bounds of all of them, or no bounds at all: there are none where a time is before the year 1 or
after 9999. NOTE: with delta-rs (1.6.6) a filter of pyarrow passes over files, in silence, that lack
a bound of an indexed column; so none is indexed of those that were added later, and old files lack.
"""

import json
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.lake.image_names import SHARD
from storage_core.parts.row_groups import PartFile

COLUMNS_MAX: Final = 32
STRING_CHARACTERS_MAX: Final = 32
_FIRST: Final = ("primary", "secondary", "address")
_INDEXED: Final = "delta.dataSkippingStatsColumns"
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
_LAST_MOMENT: Final = '"9999-12-31T23:59:59.999999Z"'
_US: Final = {"ms": 1000, "us": 1}
_types: Any = pa.types
_compute: Any = pc
# The least and the largest value as JSON; None where nothing is known.
_Bounds = tuple[str | None, str | None]


def indexed_columns(table: pa.Schema) -> list[str]:
    """Return the columns that files have statistics of, of a table with these columns."""
    first = [name for name in _FIRST if name in table.names]
    others = (
        column.name
        for column in table
        if column.name not in (*_FIRST, SHARD) and _has_bounds(column.type)
    )
    return [*first, *islice(others, COLUMNS_MAX)]


def indexed_property(table: pa.Schema) -> dict[str, str]:
    """Return the property by which a table that is made names its indexed columns."""
    return {_INDEXED: ",".join(indexed_columns(table))}


def statistics_of(file: PartFile, table: pa.Schema) -> str:
    """Return what Delta says of a file, as JSON.

    Args:
        file: A file with a table's columns.
        table: The table's columns. Of those that were added since it was made there may be bounds;
            no reader asks for them.

    Raises:
        CorruptionError: The file is damaged.
    """
    metadata = file.footer.metadata
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    count = str(metadata.num_rows)
    bare = _object({"numRecords": count})
    nulls: dict[str, str] = {}
    least: dict[str, str] = {}
    most: dict[str, str] = {}
    for name in indexed_columns(table):
        if name not in places:
            nulls[name] = count
            continue
        statistics = [group.column(places[name]).statistics for group in groups]
        if any(of is None or not of.has_null_count for of in statistics):
            return bare
        nulls[name] = str(sum(of.null_count for of in statistics))
        filled = [of for of, group in zip(statistics, groups, strict=True) if _has_any(of, group)]
        if filled:
            low, high = _bounds(file, name, filled)
            if low is None or high is None:
                return bare
            least[name], most[name] = low, high
    members = {"minValues": least, "maxValues": most, "nullCount": nulls}
    texts = {name: _object(values) for name, values in members.items()}
    return _object({"numRecords": count, **texts})


def _has_any(statistics: Any, group: Any) -> bool:  # noqa: ANN401 - the library's
    return bool(statistics.null_count < group.num_rows)


def _object(members: dict[str, str]) -> str:
    """Return an object of JSON whose values are JSON already."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


def _has_bounds(data_type: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    """Tell whether values of a type in a table have bounds."""
    if _types.is_decimal(data_type):
        return bool(data_type.precision <= _DECIMAL_DIGITS_MAX)
    return bool(
        _types.is_integer(data_type)
        or _types.is_string(data_type)
        or _types.is_date(data_type)
        or _types.is_timestamp(data_type)
    )


def _bounds(file: PartFile, name: str, statistics: list[Any]) -> _Bounds:
    """Return the bounds of a column of a file, of row groups that have any value of it."""
    data_type: Any = file.footer.schema.field(name).type
    is_text = _types.is_string(data_type) or _types.is_dictionary(data_type)
    if not all(of.has_min_max for of in statistics):
        return _of_strings(*_prefixes(file, name)) if is_text else (None, None)
    if _types.is_decimal(data_type):
        least, most = min(of.min for of in statistics), max(of.max for of in statistics)
        return f"{least:f}", f"{most:f}"
    raw = min(of.min_raw for of in statistics), max(of.max_raw for of in statistics)
    if is_text:
        return _of_strings(*raw)
    if _types.is_date(data_type):
        return _day(raw[0]), _day(raw[1])
    if _types.is_timestamp(data_type):
        least, most = (end * _US[data_type.unit] for end in raw)
        # What is after the last millisecond may be before the year 10000, a usual sign of no end.
        is_last = _MS_MAX * _US["ms"] < most < (_MS_MAX + 1) * _US["ms"]
        return _timestamp(least // 1000), _LAST_MOMENT if is_last else _timestamp(-(-most // 1000))
    return str(raw[0]), str(raw[1])


def _prefixes(file: PartFile, name: str) -> tuple[bytes, bytes]:
    """Return how the least and the largest text of a column begin; footers lack long ones."""
    ends = []
    for group in range(file.footer.row_groups):
        texts: Any = file.read(group, [name]).column(name).cast(pa.string())
        # As many as tell that they were cut.
        texts = _compute.utf8_slice_codeunits(texts, 0, STRING_CHARACTERS_MAX + 1)
        both = _compute.min_max(texts)
        ends += [end.as_py().encode() for end in both.values() if end.is_valid]
    return min(ends), max(ends)


def _of_strings(least: bytes, most: bytes) -> _Bounds:
    """Return bounds of UTF-8; the first characters of the least one are at or below it."""
    low, high = least.decode(errors="ignore")[:STRING_CHARACTERS_MAX], _text_at_least(most)
    return _text(low), None if high is None else _text(high)


def _text(text: str) -> str:
    """Return a text as JSON."""
    # NOTE: delta-rs (1.6.6) takes escapes of characters beyond U+1FFFF for other characters.
    return json.dumps(text, ensure_ascii=False)


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
        return text
    following = ord(prefix[-1]) + 1
    if following > _BEFORE_SURROGATES and following < _BEHIND_SURROGATES:
        following = _BEHIND_SURROGATES
    return prefix[:-1] + chr(following)


def _day(days: int) -> str | None:
    if not _DAYS[0] <= days <= _DAYS[1]:
        return None
    return json.dumps((_EPOCH.date() + timedelta(days=days)).isoformat())


def _timestamp(ms: int) -> str | None:
    if not _MS_MIN <= ms <= _MS_MAX:
        return None
    moment = (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    return json.dumps(moment.replace("+00:00", "Z"))
