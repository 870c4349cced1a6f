"""Read slots: never more threads inside than it lets in, and no slot is ever lost."""

import random
import threading
from collections.abc import Generator
from datetime import timedelta

from storage_core import StreamOptions
from storage_core.read.read_slots import ReadSlots
from tests.log.writing.interruptions import interrupted_everywhere

THREADS, SLOTS, READS = 8, 3, 1500


def test_slots_are_never_too_many_and_none_is_lost():
    slots = ReadSlots("s", StreamOptions(reads_max=SLOTS, wait_max=timedelta(minutes=5)))
    inside: set[int] = set()
    most = []

    def half_way() -> Generator[None, None, None]:
        with slots.enter():
            yield

    def read_often(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(READS):
            with slots.enter():
                inside.add(seed)
                most.append(len(inside))
                left = [half_way() for _ in range(chance.randrange(SLOTS))]
                for iterator in left:
                    next(iterator)
                if chance.random() < 0.5:
                    left.clear()
                for iterator in left:
                    iterator.close()
                inside.discard(seed)

    threads = [threading.Thread(target=read_often, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == THREADS * READS
    assert max(most) <= SLOTS
    assert slots._free.qsize() == SLOTS


def test_interruption_costs_no_slot_once_its_thread_has_read_again():
    slots = ReadSlots("s", StreamOptions(reads_max=1))

    def read_within_a_read(_: int) -> None:
        with slots.enter(), slots.enter():
            pass

    interruptions = 0
    for _ in interrupted_everywhere(read_within_a_read):
        with slots.enter():
            assert slots._free.qsize() == 0
        assert slots._free.qsize() == 1
        interruptions += 1
    assert interruptions
