"""Times as people write them, in options of commands and of the worker: one rule for all.

ISO 8601, as 2026-01-31T12:00:00Z or with an offset; a time without a zone is UTC.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

EXAMPLE: Final = "2026-01-31T12:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds_of(text: str) -> int:
    """Return a time as microseconds since 1970.

    Raises:
        ValueError: It is no time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
