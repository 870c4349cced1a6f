"""Transactions on their way at a server that ends."""

from threading import Event

from connectors.serve.landings import Landings
from connectors.serve.settings import Bounds
from storage_core import SystemClock
from tests.waiting import WAIT_MAX_S

LANDINGS = 30


def test_end_waits_for_all_that_is_on_its_way_together_and_not_in_turn() -> None:
    clock, may_end = SystemClock(), Event()
    landings = Landings(Bounds(landing_s=0), clock)
    for number in range(LANDINGS):
        assert landings.land(number, lambda: int(may_end.wait(WAIT_MAX_S)), 0) is None
    began_s = clock.monotonic_s()
    landings.close(1.0)
    took_s = clock.monotonic_s() - began_s
    may_end.set()
    landings.close(WAIT_MAX_S)
    assert len(landings) == 0
    # In turn it would be a second for each.
    assert took_s < LANDINGS / 2
