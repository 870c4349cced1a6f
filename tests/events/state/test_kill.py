"""Goal: a killed process loses no change of state that it acknowledged, and retries undo none.

Method: rounds on one store. Clients in a process of their own change and delete rows, and note what
was answered; SIGKILL strikes once some more are noted. Then each context has the rows of its steps
up to the last noted one, or of one step more, which may have been stored and not noted.
"""

from pathlib import Path
from random import Random

from storage_core import SystemClock
from tests.events.killed import kill_after
from tests.events.state.clients import CLIENTS, ClientsPlan, noted_steps, rows_after, run_clients
from tests.events.state.rows import StateBench
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.thin import rounds

ROUNDS = rounds("SHARDLOG_FAULT_EVENTS", few=2, many=100)
STEPS_MAX = 200


def test_killed_store_keeps_the_changes_that_it_acknowledged(root: Path) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        chance = Random(seed)
        plan = ClientsPlan(root / "root", root / "notes")
        StateBench(plan.root).close()
        for _ in range(ROUNDS):
            kill_after(
                chance.randrange(STEPS_MAX),
                lambda: len(list(noted_steps(plan.notes))),
                run_clients,
                plan,
            )
            check(plan)


def check(plan: ClientsPlan) -> None:
    """Compare what is there with the notes."""
    bench = StateBench(plan.root)
    # The rows are younger than their TTL by the system's clock.
    bench.clock.wall_ns = SystemClock().now_ns()
    done = dict.fromkeys(range(CLIENTS), 0)
    done |= {client: step + 1 for client, step in noted_steps(plan.notes)}
    for client, steps in done.items():
        rows = {row: x for _, row, x in bench.rows(f"FOR client-{client}")}
        assert rows in (rows_after(steps), rows_after(steps + 1)), f"client {client}"
    bench.close()
