"""What a caller asks, in the words of the calls, as a request.

Numbers may be of any type that is an integer; ids and versions may be one or several. What is
none is refused by name, before anything is read.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from operator import index

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.read.request import Order, ReadRequest

Ids = int | Iterable[int] | None


def request_of(  # noqa: PLR0913 - a request's parts
    order: Order,
    ids: Ids,
    start: int | None,
    end: int | None,
    limit: int,
    versions: Iterable[int] | None,
    columns: Sequence[str] | None,
) -> ReadRequest:
    """Return what a caller asks of every shard."""
    return ReadRequest(
        0,
        start=INT64_MIN if start is None else integer("start", start),
        end=INT64_MAX if end is None else integer("end", end),
        ids=None if ids is None else _integers("ids", ids),
        versions=None if versions is None else _integers("versions", versions),
        columns=None if columns is None else _names(columns),
        order=order,
        limit=integer("limit", limit),
    )


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        message = f"columns are a list of names, not {columns!r}"
        raise InvalidRequestError(message)
    return tuple(columns)


def _integers(name: str, values: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(values, Iterable):
        return tuple(sorted({integer(name, value) for value in values}))
    return (integer(name, values),)


def integer(name: str, value: object) -> int:
    """Return what a caller gives as an integer."""
    try:
        return index(value)  # type: ignore[arg-type]  # refused below
    except TypeError as error:
        message = f"{name}: {value!r} is not an integer"
        raise InvalidRequestError(message) from error


def span_ms(name: str, value: object) -> int:
    """Return how many milliseconds a caller gives as a span of time that is not negative."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        message = f"{name}: {value!r} is not a timedelta of 0 or more"
        raise InvalidRequestError(message)
    return value // timedelta(milliseconds=1)
