"""Where a reset goes: the offsets that Kafka's own tool knows, clamped as it does."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from storage_core import InvalidRequestError

Kind = Literal["earliest", "latest", "offset", "time", "shift"]

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a reset goes.

    Attributes:
        kind: The log's start, its last stable offset, an offset, a time, or so many from where
            the shard stands.
        value: The offset, the time in milliseconds, or how many offsets; 0 where there is none.
    """

    kind: Kind
    value: int = 0


def duration_target(text: str, now_ms: int) -> Target:
    """Return the target of `--by-duration`: so long ago.

    Raises:
        InvalidRequestError: It is no duration.
    """
    matched = _DURATION.fullmatch(text)
    lengths = {} if matched is None else {n: v for n, v in matched.groupdict().items() if v}
    if not lengths:
        message = f"--by-duration {text!r}: write a duration of ISO 8601, as P1DT2H30M or PT15M"
        raise InvalidRequestError(message)
    try:
        ago = timedelta(**{name: float(value) for name, value in lengths.items()})
    except OverflowError as error:
        message = f"--by-duration {text!r}: that is too long"
        raise InvalidRequestError(message) from error
    return Target("time", max(now_ms - ago // timedelta(milliseconds=1), 0))


def clamped(offset: int, low: int, end: int) -> tuple[int, str]:
    """Return an offset that the log has, and what is said where another was wanted."""
    if offset < low:
        return low, f"offset {offset} is below the log's start; {low} is taken"
    if offset > end:
        return end, f"offset {offset} is above the log's end; {end} is taken"
    return offset, ""
