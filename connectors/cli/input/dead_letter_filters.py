"""Parses the filters of `shardlog dlq`: offsets, times, reasons, schema ids."""

import re
from collections.abc import Iterable
from typing import Final

from connectors.cli.input.arguments import primary_bound
from connectors.dlq.record import REASON_WORDS
from connectors.ingest.dead_letters.selection import Selection
from storage_core import InvalidRequestError

_OFFSETS: Final = re.compile(r"(\d*)\.\.(\d*)\Z")


def selection_of(  # noqa: PLR0913 - one parameter an option
    partitions: Iterable[int] | None,
    offsets: str | None,
    since: str | None,
    until: str | None,
    reasons: Iterable[str] | None,
    schema_ids: Iterable[int] | None,
) -> Selection:
    """Return the dead letters that options of a command name.

    Raises:
        InvalidRequestError: An option cannot be read, or names no reason there is.
    """
    start, end = _range(offsets)
    for word in reasons or ():
        if word not in REASON_WORDS:
            message = f"--reason {word!r}: is not one of {', '.join(sorted(REASON_WORDS))}"
            raise InvalidRequestError(message)
    return Selection(
        frozenset(partitions or ()),
        start,
        end,
        primary_bound("--since", since, "ms"),
        primary_bound("--until", until, "ms"),
        frozenset(reasons or ()),
        frozenset(schema_ids or ()),
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
