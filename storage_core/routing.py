"""Routing: which state each row of a batch gets. Pure functions over columns.

The first test that holds decides, per row in order of arrival; `max` is the running maximum
of the row's secondary, which starts at its head:

    p < floor          expired   moves nothing
    p > ahead_limit    ahead     moves nothing: one wrong clock must not make an id late for years
    p >= max           normal    moves the head
    p >= max - jitter  normal    absorbed: moves only the window
    else               late      moves nothing

Sums at both ends of int64 saturate.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.keys import INT64_MAX, INT64_MIN
from storage_core.record import STATE_AHEAD, STATE_EXPIRED, STATE_LATE
from storage_core.reductions import largest

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

_DENSE_SPAN_PER_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Grouping:
    """The distinct secondaries of a batch, and for each row which of them it has."""

    ids: Int32s
    codes: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """What the table above compares with."""

    floor: int
    ahead_limit: int
    jitter: int


@dataclass(frozen=True, slots=True)
class Routed:
    """The states of a batch (None: all normal), its heads afterwards, and what was counted."""

    states: States | None
    maxima: Int64s
    absorbed: int


def saturating_add(value: int, delta: int) -> int:
    """Return the sum, held inside int64."""
    return max(INT64_MIN, min(INT64_MAX, value + delta))


def group(secondaries: Int32s) -> Grouping:
    """Return the distinct secondaries in ascending order and each row's index among them."""
    if len(secondaries) == 1:
        # IMPORTANT: a copy; heads keep it longer than a caller keeps the memory of its batch.
        return Grouping(secondaries.copy(), np.zeros(1, dtype=np.intp))
    least = int(secondaries.min())
    span = int(secondaries.max()) - least + 1
    if span <= _DENSE_SPAN_PER_ROW * len(secondaries) + 1024:
        offsets = secondaries - least if least else secondaries
        flags = np.zeros(span, dtype=np.bool_)
        flags[offsets] = True
        present = np.flatnonzero(flags)
        index = np.empty(span, dtype=np.intp)
        index[present] = np.arange(len(present))
        return Grouping((present + least).astype(np.int32), index[offsets])
    encoded = pa.array(secondaries).dictionary_encode()
    ids = encoded.dictionary.to_numpy()
    order = np.argsort(ids)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Grouping(ids[order], rank[encoded.indices.to_numpy()])


def route(primaries: Int64s, groups: Grouping, maxima: Int64s, rules: RoutingRules) -> Routed:
    """Give each row its state.

    Args:
        primaries: The batch's primaries in order of arrival.
        groups: The batch's secondaries.
        maxima: Head of each of `groups.ids`; int64's least where there is none.
        rules: Floor, limit and jitter in force.
    """
    first, last = int(primaries[0]), int(primaries[-1])
    is_plain = (
        first >= rules.floor
        and last <= rules.ahead_limit
        and first >= largest(maxima)
        and (len(primaries) == 1 or bool((primaries[1:] >= primaries[:-1]).all()))
    )
    if is_plain and len(primaries) == 1:
        return Routed(None, primaries, 0)
    if is_plain:
        after = maxima.copy()
        after[groups.codes] = primaries
        return Routed(None, after, 0)
    return _route_each(primaries, groups, maxima, rules)


def _route_each(primaries: Int64s, groups: Grouping, maxima: Int64s, rules: RoutingRules) -> Routed:
    states = np.zeros(len(primaries), dtype=np.uint8)
    states[primaries > rules.ahead_limit] = STATE_AHEAD
    states[primaries < rules.floor] = STATE_EXPIRED
    moving = np.where(states == 0, primaries, INT64_MIN)
    before, after = _running_maxima(moving, groups, maxima)
    least = np.where(before < INT64_MIN + rules.jitter, INT64_MIN, before - rules.jitter)
    behind = (states == 0) & (primaries < before)
    states[behind & (primaries < least)] = STATE_LATE
    absorbed = int(np.count_nonzero(behind & (states == 0)))
    return Routed(states if states.any() else None, after, absorbed)


def _running_maxima(moving: Int64s, groups: Grouping, maxima: Int64s) -> tuple[Int64s, Int64s]:
    """Return each row's maximum before it, and each group's after all of them."""
    codes = groups.codes
    narrow = codes.astype(np.uint16) if len(groups.ids) <= 2**16 else codes
    order = np.argsort(narrow, kind="stable")
    sorted_codes = codes[order]
    starts = np.empty(len(order), dtype=np.bool_)
    starts[0] = True
    np.not_equal(sorted_codes[1:], sorted_codes[:-1], out=starts[1:])
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    position = np.arange(len(order)) - begin
    running = moving[order]
    shift = 1
    longest = int(position.max()) + 1
    while shift < longest:
        # Doubling: after each round a row holds the maximum of twice as many before it.
        lagged = running[:-shift]
        ahead = running[shift:]
        running = np.concatenate(
            (running[:shift], np.where(position[shift:] >= shift, np.maximum(ahead, lagged), ahead))
        )
        shift *= 2
    before_sorted = np.where(starts, INT64_MIN, np.concatenate(([INT64_MIN], running[:-1])))
    before_sorted = np.maximum(before_sorted, maxima[sorted_codes])
    before = np.empty_like(moving)
    before[order] = before_sorted
    ends = np.append(np.flatnonzero(starts)[1:] - 1, len(order) - 1)
    after = maxima.copy()
    after[sorted_codes[ends]] = np.maximum(running[ends], maxima[sorted_codes[ends]])
    return before, after
