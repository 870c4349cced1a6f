"""Parses the filters of `shardlog dlq`: offsets, times, reasons, schema ids."""

import re
from typing import Final

from connectors.cli.input.arguments import primary_bound
from connectors.cli.parsing.dead_letter_filters import DeadLetterFilters
from connectors.dlq.record import REASON_WORDS
from connectors.ingest.dead_letters.selection import Selection
from storage_core import InvalidRequestError

_OFFSETS: Final = re.compile(r"(\d*)\.\.(\d*)\Z")


def selection_of(filters: DeadLetterFilters) -> Selection:
    """Return the dead letters that options of a command name.

    Raises:
        InvalidRequestError: An option cannot be read, or names no reason there is.
    """
    start, end = _range(filters.offsets)
    for word in filters.reason or ():
        if word not in REASON_WORDS:
            message = f"--reason {word!r}: is not one of {', '.join(sorted(REASON_WORDS))}"
            raise InvalidRequestError(message)
    return Selection(
        frozenset(filters.partition or ()),
        start,
        end,
        primary_bound("--since", filters.since, "ms"),
        primary_bound("--until", filters.until, "ms"),
        frozenset(filters.reason or ()),
        frozenset(filters.schema_id or ()),
    )


def _range(offsets: str | None) -> tuple[int, int | None]:
    if offsets is None:
        return 0, None
    match = _OFFSETS.match(offsets)
    if match is None and offsets.isdecimal():
        return int(offsets), int(offsets)
    if match is None or offsets == "..":
        message = f"--offsets {offsets!r}: write A..B, A.., ..B or a single offset"
        raise InvalidRequestError(message)
    start, end = int(match[1] or 0), int(match[2]) if match[2] else None
    if end is not None and end < start:
        message = f"--offsets {offsets!r}: the first lies behind the last"
        raise InvalidRequestError(message)
    return start, end
