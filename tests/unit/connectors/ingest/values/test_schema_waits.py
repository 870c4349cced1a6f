"""Records that wait for their schemas: none is passed over or comes twice, and all come on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from connectors.ingest.values.schema_waits import stored_text
from connectors.kafka import Partition
from connectors.registry import RegistryRefusedError, RegistryUnavailableError
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.log.schemas import LONG, LONG_ANEW, STRING
from tests.log.workbench import batch_of
from tests.unit.connectors.framed import name_of
from tests.unit.connectors.ingest.schema_bench import TEXT, Bench, play, value_of
from tests.unit.connectors.writers import TOPIC, open_writers
from tests.waiting import await_that

A, B, C = Partition("orders", 0), Partition("orders", 1), Partition("other", 0)
RUNS = int(os.environ.get("SHARDLOG_SCHEMA_RUNS", "6"))


@contextmanager
def bench_of(values: dict[Partition, list[bytes]], **settings: Any) -> Iterator[Bench]:
    made = Bench(values, **settings)
    try:
        for partition in values:
            made.take(partition)
        yield made
    finally:
        made.close()


def test_ids_that_nobody_knows_are_passed_however_many_and_slow_to_ask_for():
    with bench_of({A: [name_of(1000 + at) for at in range(300)]}) as bench:
        bench.registry.is_slow = True

        def is_done() -> bool:
            # Four answers a second: that one is unknown is known for less long than it takes to
            # be told of all.
            bench.registry.answer(8)
            bench.clock.advance(2.0)
            return bench.turn()

        await_that(is_done, "all are dead letters")
        assert bench.stored[A] == [None] * 300
        assert bench.registry.requests < 2 * 300
        lines = [call.kwargs for call in bench.log.calls if call.args == ("waiting for schemas",)]
        assert lines
        assert all(len(line["schemas"]) <= 10 for line in lines)


def test_id_that_nobody_knew_is_asked_for_again_seconds_later():
    with bench_of({A: [value_of(7)] * 10}) as bench:
        await_that(bench.turn, "they are dead letters")
        bench.registry.known_schemas.add(7)
        bench.kafka.values[A].extend([value_of(7)] * 10)
        bench.clock.advance(10.0)
        await_that(bench.turn, "the others are stored")
        assert bench.stored[A] == [None] * 10 + [7] * 10


def test_schema_that_the_registry_has_lost_is_read_from_the_store():
    with bench_of({A: [value_of(7), value_of(8)]}, in_store={7: TEXT}.get) as bench:
        await_that(bench.turn, "what the store knows is stored")
        assert bench.stored[A] == [7, None]


def test_stored_text_that_is_no_schema_is_none():
    with bench_of({A: [value_of(7)]}, in_store=lambda _: "[" * 100_000) as bench:
        await_that(bench.turn, "it is a dead letter")
        assert bench.stored[A] == [None]


def test_text_of_an_id_is_the_newest_and_none_where_shards_disagree(tmp_path):
    with open_writers(tmp_path, 3) as writers:

        def put(shard, address, schema):
            writers[Partition(TOPIC, shard)].stream.append_batch(
                batch_of([1], schema=[0]), shard=shard, addresses=[address], schemas=[schema]
            )
            return stored_text(writers, schema.registry_id)

        assert stored_text(writers, LONG.registry_id) is None
        assert put(0, 0, LONG) == LONG.text
        assert put(0, 1, LONG_ANEW) == LONG_ANEW.text
        assert put(1, 0, LONG_ANEW) == LONG_ANEW.text
        assert put(2, 0, LONG) is None
        writers[Partition(TOPIC, 2)].stream.close()
        assert put(0, 2, STRING) == STRING.text
        assert stored_text(writers, LONG.registry_id) == LONG_ANEW.text


def test_partition_goes_on_at_its_next_try_once_a_refusal_is_over():
    with bench_of({A: [value_of(7)] * 10}) as bench:
        bench.registry.known_schemas.add(7)
        bench.registry.mood = "refuses"
        await_that(lambda: not bench.turn() and A in bench.stuck, "it is set aside")
        assert isinstance(bench.stuck[A], RegistryRefusedError)
        bench.registry.mood = "well"
        bench.clock.advance(300.0)
        bench.take(A)

        def is_stored() -> bool:
            is_done = bench.turn()
            assert not bench.stuck
            return is_done

        await_that(is_stored, "the registry is asked anew")


@pytest.mark.parametrize(("wait_s", "lasts_s"), [(8.0, 8.0), (0.0, 2.0)])
def test_partition_waits_no_longer_for_a_registry_that_is_silent_than_it_may(wait_s, lasts_s):
    with bench_of({A: [value_of(7)]}, wait_s=wait_s) as bench:
        bench.registry.is_slow = True
        bench.turn()
        bench.clock.advance(lasts_s - 0.1)
        bench.turn()
        assert not bench.stuck
        bench.clock.advance(0.2)
        bench.turn()
        assert isinstance(bench.stuck[A], RegistryUnavailableError)
        assert "schema id 7: no answer within" in str(bench.stuck[A])


def test_registry_that_answers_slowly_is_not_silent():
    with bench_of({A: [value_of(at) for at in range(300)]}, wait_s=8.0) as bench:
        bench.registry.known_schemas.update(range(300))
        bench.registry.is_slow = True

        def is_done() -> bool:
            bench.registry.answer(4)
            bench.clock.advance(0.5)
            is_done = bench.turn()
            assert not bench.stuck
            return is_done

        await_that(is_done, "all are stored")


def test_stored_schema_stands_in_for_a_registry_that_is_silent():
    with bench_of({A: [value_of(7)]}, in_store={7: TEXT}.get, wait_s=8.0) as bench:
        bench.registry.is_slow = True
        bench.turn()
        bench.clock.advance(8.1)
        await_that(bench.turn, "what the store knows is stored")
        assert bench.stored[A] == [7]


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("unknown", ["dead-letter", "quarantine"])
@pytest.mark.parametrize("unreachable", ["dead-letter", "quarantine"])
def test_no_record_is_lost_or_doubled_in_any_order_of_things(run, unknown, unreachable):
    seed = fault_seed()
    with naming_seed(seed):
        run_any_order(Random(seed + run), unknown, unreachable)


def run_any_order(chance, unknown, unreachable):
    values = {at: [value_of(chance.randrange(9)) for _ in range(200)] for at in (A, B, C)}
    with bench_of(values, unknown=unknown, unreachable=unreachable, wait_s=5.0) as bench:
        bench.registry.known_schemas.update(range(6))
        play(bench, chance, 150)
        bench.end_round()
        bench.registry.mood = "well"
        bench.registry.known_schemas.update(range(9))
        bench.clock.advance(100.0)

        def is_done() -> bool:
            for partition in values.keys() - bench.writers.keys():
                bench.take(partition)
            bench.clock.advance(0.5)
            return bench.turn(50)

        await_that(is_done, "all records are stored")
        for partition, stored in bench.stored.items():
            ids = [value[4] for value in values[partition]]
            assert all(one in (id_, None) for one, id_ in zip(stored, ids, strict=True))
            if (unknown, unreachable) == ("quarantine", "quarantine"):
                assert stored == ids
