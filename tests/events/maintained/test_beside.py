"""Goal: what is asked beside writers and upkeep is a prefix of the events, each row once.

Method: writers that number their events, one thread that seals, compacts, trims and expires, and
readers of all kinds, in the process that owns the events and in another, all at once.
"""

import json
from threading import Thread

import pytest

from tests.events.maintained.beside import TYPES, Round, Writer
from tests.events.store.bench import rows_of
from tests.thin import rounds
from typed_events.answer import Status
from typed_events.event_store import EventStore

ROUNDS = rounds("SHARDLOG_FAULT_EVENTS", few=1, many=100)
COMMANDS = 40


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_answers_beside_writers_and_upkeep_are_prefixes(root, seed):
    going_on = Round(root / "events", seed)
    try:
        going_on.run(COMMANDS)
    finally:
        going_on.close()
    assert going_on.failures == []
    assert going_on.asked


def test_replay_of_all_types_beside_a_writer_has_each_event_with_all_before_it(root):
    with EventStore.open(root / "events") as store:
        for name in TYPES:
            assert store.execute(f'DEFINE {name} FIELDS {{ n: "int" }}').status is Status.OK
        writer = Writer("ann")
        writer.store(store, TYPES)

        def write() -> None:
            for _ in range(150):
                writer.store(store, TYPES, is_batch=False)

        thread = Thread(target=write)
        thread.start()
        while thread.is_alive():
            stored_before = writer.acknowledged
            answer = store.execute("REPLAY FOR ann")
            numbers = [json.loads(row["payload"])["n"] for row in rows_of(answer)]
            assert numbers == [*range(len(numbers))]
            assert len(numbers) >= stored_before
        thread.join()
