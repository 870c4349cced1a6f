"""Goal: QUERY, REPLAY and SHOW answer what plain lists do, whatever becomes of the rows beside.

Method: random steps over two types of random fields: events of several versions, seals, trims,
compactions, expiry, other retention, restarts and copies put back. Random commands are asked in
between, of the store and of another process that stays open; rows of some answers are taken later,
and a subscriber is told all, too.
"""

import pytest

from tests.events.maintained.scenario import Scenario
from tests.thin import rounds

SEEDS = rounds("SHARDLOG_FAULT_EVENTS", few=2, many=100)
STEPS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_answers_are_those_of_plain_lists_whatever_became_of_the_rows(make_bench, seed):
    scenario = Scenario(make_bench(shards=1 + seed % 2), seed)
    steps = [scenario.store] * 4 + [scenario.ask] * 8 + [scenario.disturb] * 3
    steps += [scenario.define, scenario.begin, scenario.end, scenario.take]
    try:
        for _ in range(STEPS):
            scenario.rng.choice(steps)()
        scenario.end()
        assert scenario.answers_compared > 0
    finally:
        scenario.close()
