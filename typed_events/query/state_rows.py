"""Rows of state: which of those that were stored are there at a moment.

A row of state is what was stored last under its context and row id, if that is younger than the TTL
and no tombstone. All rows of a context lie in one shard, so the highest address is the newest. Who
asks sees the rows of one moment, whether the log has let go of the others by then or not.
"""

from typed_events.query.fields import TypeFields
from typed_events.query.operands import LIVE, UPDATES

_SECOND_US = 10**6


def state_columns(fields: TypeFields | None, *, is_live: bool) -> tuple[str, ...]:
    """Return what rows of a type have beside the core fields, live ones or all."""
    if fields is None or fields.ttl_s is None:
        return ()
    return LIVE if is_live else UPDATES


def young_rows(source: str, ttl_s: int, now_us: int) -> str:
    """Return the SELECT of the rows that are not past their time."""
    return f'SELECT * FROM ({source}) WHERE "primary" >= {now_us - ttl_s * _SECOND_US}'  # noqa: S608 - of a number


def live_rows(source: str, ttl_s: int, now_us: int) -> str:
    """Return the SELECT of the rows that are there: of each id the newest, tombstones left out."""
    young = young_rows(source, ttl_s, now_us)
    # Quicker than a window over all columns.
    newest = (
        f"SELECT shard, max(address) FROM ({young}) "  # noqa: S608 - as above
        'GROUP BY shard, "key", headers[1]."value"'
    )
    return (
        f"SELECT * FROM ({young}) WHERE schema_id IS NOT NULL "  # noqa: S608 - as above
        f"AND (shard, address) IN ({newest})"
    )
