"""States: which one each row of a batch gets. Pure functions over columns.

The first test that holds decides, per row in order of arrival; `max` is the running maximum
of the row's secondary, which starts at its head:

    p < floor          expired   moves nothing
    p > ahead_limit    ahead     moves nothing: one wrong clock must not make an id late for years
    p >= max           normal    moves the head
    p >= max - jitter  normal    absorbed: moves only the window
    else               late      moves nothing

Sums at both ends of int64 saturate. Rows of a copy bring the states that they had.
"""

from dataclasses import dataclass

import numpy as np

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MIN
from storage_core.format.record import State
from storage_core.ids.heads.grouping import Grouping, Int64s, Judged, States


@dataclass(frozen=True, slots=True)
class StateRules:
    """What the table above compares with."""

    floor: int
    ahead_limit: int
    jitter: int


def judge(primaries: Int64s, groups: Grouping, maxima: Int64s, rules: StateRules) -> Judged:
    """Give each row its state.

    Args:
        primaries: The batch's primaries in order of arrival.
        groups: The batch's secondaries.
        maxima: Head of each of `groups.ids`; int64's least where there is none.
        rules: Floor, limit and jitter in force.
    """
    first, last = int(primaries[0]), int(primaries[-1])
    if (
        first >= rules.floor
        and last <= rules.ahead_limit
        and first >= maxima.max()
        and (primaries[1:] >= primaries[:-1]).all()
    ):
        after = maxima.copy()
        after[groups.codes] = primaries
        return Judged(None, after, 0)
    return _judge_each(primaries, groups, maxima, rules)


def as_given(
    states: States, primaries: Int64s, groups: Grouping, maxima: Int64s, jitter: int
) -> Judged:
    """Take the states that rows of a copy had, if normal rows lie where normal rows may.

    Args:
        states: One a row.
        primaries: The batch's primaries in order of arrival.
        groups: The batch's secondaries.
        maxima: Head of each of `groups.ids`.
        jitter: How far behind its head a normal row may lie.

    Raises:
        InvalidRequestError: A normal row lies further behind: scans would not look for it there.
    """
    is_normal = states == State.NORMAL
    before, after = _running_maxima(np.where(is_normal, primaries, INT64_MIN), groups, maxima)
    behind = is_normal & (primaries < before)
    wrong = behind & (primaries < _least_normal(before, jitter))
    if wrong.any():
        row = int(wrong.argmax())
        message = (
            f"row {row} has state {State.NORMAL} and primary {int(primaries[row])}, and its id has "
            f"had {int(before[row])}: that is late where the jitter is {jitter}"
        )
        raise InvalidRequestError(message)
    return Judged(None if is_normal.all() else states, after, int(np.count_nonzero(behind)))


def _judge_each(primaries: Int64s, groups: Grouping, maxima: Int64s, rules: StateRules) -> Judged:
    states = np.zeros(len(primaries), dtype=np.uint8)
    states[primaries > rules.ahead_limit] = State.AHEAD
    states[primaries < rules.floor] = State.EXPIRED
    moving = np.where(states == 0, primaries, INT64_MIN)
    before, after = _running_maxima(moving, groups, maxima)
    least = _least_normal(before, rules.jitter)
    behind = (states == 0) & (primaries < before)
    states[behind & (primaries < least)] = State.LATE
    absorbed = int(np.count_nonzero(behind & (states == 0)))
    return Judged(states if states.any() else None, after, absorbed)


def _least_normal(maxima: Int64s, jitter: int) -> Int64s:
    """Return the least primary that is still normal behind each maximum."""
    least: Int64s = np.where(maxima < INT64_MIN + jitter, INT64_MIN, maxima - jitter)
    return least


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
