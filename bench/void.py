"""When a round does not count: a peer that is too slow to compare with, a pace that was not held.

The run ends with one line that says so, and no figure.
"""

from typing import Final

from bench.measure import Contestant, Measured

_TRIES_MAX: Final = 3
_PACE_SHARE_MIN: Final = 0.97


def fast_enough(run: Contestant, rate_min: float, who: str) -> Measured:
    """Return what a contestant measured once its rate was high enough, in a few tries.

    Raises:
        SystemExit: It never was.
    """
    rates = []
    for _ in range(_TRIES_MAX):
        measured = run()
        if measured["rate"] >= rate_min:
            return measured
        rates.append(round(measured["rate"]))
    message = f"void: {who} makes no more than {max(rates)} records/s"
    raise SystemExit(message)


def check_pace(achieved: float, pace: float) -> None:
    """Refuse what was measured at another pace.

    Raises:
        SystemExit: The producer was too slow.
    """
    if achieved < _PACE_SHARE_MIN * pace:
        message = f"void: the producer makes no more than {achieved:.0f} records/s"
        raise SystemExit(message)
