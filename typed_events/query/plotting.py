"""PLOT: the rows of a query for figures, and how they are drawn.

PLOT TOTAL amount OF order BY status OVER day    x bucket, a line of total_amount a status
PLOT COUNT OF order BY status                    x status, a bar each
"""

from collections.abc import Sequence
from typing import Final

from typed_events.answer import PlotAxes
from typed_events.errors import CommandError
from typed_events.language.commands import Query

_FIELDS_MAX: Final = 2


def refuse_undrawn(query: Query) -> None:
    """Refuse a query with more groups than can be drawn.

    Raises:
        CommandError: It has.
    """
    fields = len(dict.fromkeys(query.by))
    if query.per is not None and fields > 1:
        message = "PLOT … OVER draws a line for each value of one field: write one after BY"
        raise CommandError(message)
    if fields > _FIELDS_MAX:
        message = "PLOT draws the values of two fields at most: write one or two after BY"
        raise CommandError(message)


def axes_of(query: Query, names: Sequence[str]) -> PlotAxes:
    """Return how the columns of an answer are drawn: its groups stand first, then figures."""
    groups = len(dict.fromkeys(query.by)) + (query.per is not None)
    x, series, *_ = [*names[:groups], None, None]
    return PlotAxes(x, tuple(names[groups:]), series, "bar" if query.per is None else "line")
