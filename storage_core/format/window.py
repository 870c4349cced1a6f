"""Windows: buckets of primaries, the unit of expiry and the first bound of a read.

A stream's width is fixed when it is made. Windows are numbered so that a later primary never
has a smaller window: by division for fixed widths (weeks start on Monday, UTC), by calendar
month where retention exceeds thirty days.

A window's summary holds the least and the last address of its normal rows, and counts. Its
bounds only ever widen: a read that starts at the least address of all windows it touches
misses nothing.

    window value: address_min i64 | address_last i64 | records u64 | late u64 | bytes u64
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State

Unit = Literal["s", "ms", "us", "ns", "sequence"]
WindowWidth = Literal["minute", "hour", "day", "week", "month", "sequence"]
Int64s = npt.NDArray[np.int64]

UNITS_PER_SECOND: Final[Mapping[Unit, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SEQUENCE_WIDTH: Final = 2**20
_SECONDS: Final[dict[str, int]] = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800}
# The epoch was a Thursday; Monday weeks begin four days later.
_MONDAY_SECONDS: Final = 4 * 86400
_VALUE: Final = struct.Struct("<qqQQQ")


def width_for(retention: timedelta | None, unit: Unit) -> WindowWidth:
    """Return the width a stream gets from its retention at creation."""
    if unit == "sequence":
        return "sequence"
    if retention is None:
        return "day"
    if retention <= timedelta(minutes=15):
        return "minute"
    if retention <= timedelta(days=1):
        return "hour"
    if retention <= timedelta(weeks=1):
        return "day"
    return "week" if retention <= timedelta(days=30) else "month"


@dataclass(frozen=True, slots=True)
class WindowScheme:
    """How a stream's primaries fall into windows."""

    unit: Unit
    width: WindowWidth

    def of(self, primary: int) -> int:
        """Return the window of one primary."""
        if self.width == "month":
            return int(self.of_many(np.array([primary], dtype=np.int64))[0])
        origin, size = self._origin_and_size()
        return (primary - origin) // size

    def of_many(self, primaries: Int64s) -> Int64s:
        """Return the window of each primary."""
        if self.width == "month":
            # NOTE: numpy reads the least int64 as "not a time".
            times = np.maximum(primaries, INT64_MIN + 1).view(f"M8[{self.unit}]")
            months: Int64s = times.astype("M8[M]").astype(np.int64)
            return months
        origin, size = self._origin_and_size()
        if origin == 0:
            return primaries // size
        # Shift within whole and rest, so that neither end of int64 overflows.
        whole, rest = np.divmod(primaries, size)
        shift_whole, shift_rest = divmod(origin, size)
        return whole - shift_whole - (rest < shift_rest)

    def first_of(self, window: int) -> int:
        """Return the least primary of a window, or int64's if it reaches beyond."""
        return max(self.last_of(window - 1) + 1, INT64_MIN)

    def last_of(self, window: int) -> int:
        """Return the largest primary of a window, or int64's if it reaches beyond."""
        if self.width == "month":
            per_day = UNITS_PER_SECOND[self.unit] * 86400
            days = int(np.datetime64(window + 1, "M").astype("M8[D]").astype(np.int64))
            return min(days * per_day - 1, INT64_MAX)
        origin, size = self._origin_and_size()
        return min(origin + (window + 1) * size - 1, INT64_MAX)

    def span_count(self, span: int) -> int:
        """Return about how many windows a span of primaries covers."""
        if self.width == "month":
            return span // (UNITS_PER_SECOND[self.unit] * 86400 * 30)
        return span // self._origin_and_size()[1]

    def _origin_and_size(self) -> tuple[int, int]:
        if self.width == "sequence":
            return 0, SEQUENCE_WIDTH
        scale = UNITS_PER_SECOND[self.unit]
        origin = _MONDAY_SECONDS * scale if self.width == "week" else 0
        return origin, _SECONDS[self.width] * scale


class Window(NamedTuple):
    """One window's summary; `address_min` above `address_last` means no normal rows yet."""

    address_min: int = INT64_MAX
    address_last: int = -1
    records: int = 0
    late_records: int = 0
    payload_bytes: int = 0

    def widened(self, other: "Window") -> "Window":
        """Return the summary of both."""
        return Window(
            min(self.address_min, other.address_min),
            max(self.address_last, other.address_last),
            self.records + other.records,
            self.late_records + other.late_records,
            self.payload_bytes + other.payload_bytes,
        )


def encode_window(window: Window) -> bytes:
    """Return the bytes under a window's key."""
    return _VALUE.pack(*window)


def decode_window(data: bytes) -> Window:
    """Return what `encode_window` was given."""
    return Window(*_VALUE.unpack(data))


def summarise(
    scheme: WindowScheme,
    primaries: Int64s,
    addresses: Int64s,
    sizes: npt.NDArray[np.int32],
    states: npt.NDArray[np.uint8] | None,
) -> dict[int, Window]:
    """Return per window what a batch's normal and late rows add to it (states None: all normal).

    Ahead and expired rows move no window: one wrong clock must not hold back expiry.
    """
    if states is not None:
        counted = states <= State.LATE
        primaries, addresses, sizes = primaries[counted], addresses[counted], sizes[counted]
        states = states[counted]
    if not len(primaries):
        return {}
    first = scheme.of(int(primaries.min()))
    if first == scheme.of(int(primaries.max())):
        return {first: _summary(addresses, sizes, states)}
    windows = scheme.of_many(primaries)
    order = np.argsort(windows, kind="stable")
    numbers, starts = np.unique(windows[order], return_index=True)
    return {
        int(number): _summary(
            addresses[part], sizes[part], None if states is None else states[part]
        )
        for number, part in zip(numbers, np.split(order, starts[1:]), strict=True)
    }


def _summary(
    addresses: Int64s, sizes: npt.NDArray[np.int32], states: npt.NDArray[np.uint8] | None
) -> Window:
    late = 0 if states is None else int(states.sum())
    normal = addresses if states is None or late == 0 else addresses[states == 0]
    bounds = (int(normal[0]), int(normal[-1])) if len(normal) else (INT64_MAX, -1)
    return Window(*bounds, len(addresses), late, int(sizes.sum()))
