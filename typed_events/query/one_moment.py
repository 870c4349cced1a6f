"""Rows of several types as of one moment, though their streams are looked at one after another.

Times rise over the whole store, and who is told that an event is stored finds all before it. So an
event that came behind the snapshot of its stream hides all later ones: else an answer would have
what follows it, and lack it. What was stored before the query began is in all snapshots.
"""

from collections.abc import Callable, Mapping

from storage_core.sql.pool.pooled_stream import PooledSnapshot

FirstBehind = Callable[[PooledSnapshot], int | None]


def end_of_moment(snapshots: Mapping[str, PooledSnapshot], first_behind: FirstBehind) -> int | None:
    """Return from what time on rows of all snapshots are hidden; None for no time.

    Args:
        snapshots: Those of a query, all of event types.
        first_behind: Returns the least time of what came behind a snapshot.
    """
    if len(snapshots) < 2:  # noqa: PLR2004 - nothing beside it
        return None
    times = [first_behind(snapshot) for snapshot in snapshots.values()]
    return min((time for time in times if time is not None), default=None)


def rows_before(source: str, end_us: int | None) -> str:
    """Return the SELECT of the rows before a time."""
    if end_us is None:
        return source
    return f'SELECT * FROM ({source}) WHERE "primary" < {end_us}'  # noqa: S608 - of a number
