"""Read slots: none is lost where an interruption ends a read."""

from storage_core import StreamOptions
from storage_core.read.read_slots import ReadSlots
from tests.log.writing.interruptions import interrupted_everywhere


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
