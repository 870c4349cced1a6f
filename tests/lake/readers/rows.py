"""Rows that are compared, whatever reader they are of."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

_ENTRY: Final = {"key", "value"}


def rows_of(records: Iterable[dict[str, Any]]) -> list[str]:
    """Return rows as text, by shard and address: NaN is not equal to itself."""
    ordered = sorted(records, key=lambda row: (row["shard"], row["address"]))
    return [repr({name: plain(value) for name, value in row.items()}) for row in ordered]


def plain(value: Any) -> Any:  # noqa: PLR0911 - one way a type
    """Return a value as it is in whatever engine: times by UTC, entries of a map as pairs."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_item(item) for item in value]
    return value


def _item(item: Any) -> Any:
    """Return an item of a list, or an entry of a map."""
    if isinstance(item, dict) and item.keys() == _ENTRY:
        item = (item["key"], item["value"])
    return tuple(map(plain, item)) if isinstance(item, tuple) else plain(item)
