"""Rows that are compared, whatever reader they are of."""

from collections.abc import Iterable
from typing import Any


def rows_of(records: Iterable[dict[str, Any]]) -> list[str]:
    """Return rows as text, by shard and address: NaN is not equal to itself."""
    ordered = sorted(records, key=lambda row: (row["shard"], row["address"]))
    return [repr({name: _plain(value) for name, value in row.items()}) for row in ordered]


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else value
