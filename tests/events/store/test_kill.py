"""Goal: a killed process loses no event that it acknowledged, and retries double none.

Method: rounds on one store, which so grows. Twenty clients in a process of their own store events
and batches over two types, and note what was acknowledged; SIGKILL strikes once some more are
noted, or while the store is opened. The next round's clients go on where the notes end, so each
step that was not acknowledged comes again under its key. In the end each context has the events of
its steps in their order, each once, at the positions that were answered; of the last step alone,
which may not have been noted, all or none.
"""

from collections import defaultdict
from itertools import product
from pathlib import Path
from random import Random

from tests.events.killed import kill_after
from tests.events.store.bench import StoreBench
from tests.events.store.clients import (
    CLIENTS,
    TYPES,
    ClientsPlan,
    run_clients,
    steps_noted,
    types_of,
)
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.thin import rounds

ROUNDS = rounds("SHARDLOG_FAULT_EVENTS", few=3, many=200)
STEPS_MAX = 400


def test_killed_store_keeps_what_it_acknowledged_once(root: Path) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        chance = Random(seed)
        plan = ClientsPlan(root / "root", root / "notes", batches_every=chance.choice([2, 3, 7]))
        bench = StoreBench(plan.root)
        for event_type in TYPES:
            bench.define(event_type, client="int", step="int")
        bench.close()
        for _ in range(ROUNDS):
            kill_after(
                chance.randrange(STEPS_MAX),
                lambda: len(list(steps_noted(plan.notes))),
                run_clients,
                plan,
            )
            check(plan)


def check(plan: ClientsPlan) -> None:
    """Compare what is stored with the notes."""
    bench = StoreBench(plan.root)
    # Whoever opens the store to write finishes what was left.
    bench.must("pay", "checker", client=-1, step=0)
    bench.close()
    steps: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    places: dict[tuple[int, int, str], str] = {}
    last = dict.fromkeys(product(range(CLIENTS), TYPES), -1)
    for event_type in TYPES:
        for place, (_, _, fields) in enumerate(bench.events(event_type)):
            client, step = fields["client"], fields["step"]
            if client < 0:
                continue
            assert step > last[client, event_type], (
                f"step {step} of client {client} is not in order"
            )
            last[client, event_type] = step
            steps[client][step].append(event_type)
            places[client, step, event_type] = f"0:{place}"
    noted = dict.fromkeys(range(CLIENTS), -1)
    for client, step, positions in steps_noted(plan.notes):
        noted[client] = step
        event_types = types_of(step, plan.batches_every)
        expected = [places.get((client, step, event_type)) for event_type in event_types]
        assert positions == expected, f"step {step} of client {client}"
    for client, step in noted.items():
        assert len(steps[client]) in {step + 1, step + 2}
        for number in range(len(steps[client])):
            assert sorted(steps[client][number]) == sorted(types_of(number, plan.batches_every))
