"""What of a stream may be gone: below its floor, where retention has taken rows or is about to.

What a window is made of, rows or the roll-ups of the level below, is all there only above the
floor. Whoever reads first and asks then errs on the safe side, since a floor never falls. What a
cap takes has no floor, so a stream that has one is refused.
"""

import logging
from datetime import timedelta
from typing import Final

from storage_core import INT64_MIN, InvalidRequestError, StreamReader
from streaming_jobs.jobs.rollup.calendar import Level

_LOG: Final = logging.getLogger("shardlog")
_LONGEST: Final[dict[Level, timedelta]] = {
    "hour": timedelta(hours=1),
    "day": timedelta(hours=25),
    "month": timedelta(days=31, hours=1),
    "year": timedelta(days=366),
}


def floor_of(reader: StreamReader, stream: str) -> int:
    """Return the primary below which rows of some shard have expired.

    Raises:
        InvalidRequestError: Rows go by a cap, so there is none.
    """
    refuse_caps(reader, stream)
    floors = [reader.shard(shard).state().floor for shard in reader.committed()]
    return max(floors, default=INT64_MIN)


def refuse_caps(reader: StreamReader, stream: str) -> None:
    """Refuse a stream whose rows go by how many there are.

    Raises:
        InvalidRequestError: It is one.
    """
    caps = {name: getattr(reader.options, name) for name in ("records_max", "bytes_max")}
    limits = ", ".join(f"{name} {cap}" for name, cap in caps.items() if cap is not None)
    if limits:
        message = (
            f"stream {stream!r} keeps no more than {limits}: rows that a window needs may be gone, "
            "and nobody would know; bound it by retention instead"
        )
        raise InvalidRequestError(message)


def warn_of_short_retention(reader: StreamReader, stream: str, level: Level) -> None:
    """Tell where rows go before a window of the lowest level is over: it may have no roll-up."""
    retention, longest = reader.options.retention, _LONGEST[level]
    if retention is not None and retention <= longest:
        _LOG.warning(
            "stream %r keeps rows for %s and the windows of level %r take up to %s: those that are "
            "not whole any more as their rows are read are left out; let the retention be longer",
            stream,
            retention,
            level,
            longest,
        )
