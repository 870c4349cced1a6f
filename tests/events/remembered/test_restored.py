"""Goal: SHOW is right, whatever was put back to an older copy: the stream, or what is remembered.

Method: files are copied and put back while nobody has the store open; the answer of SHOW is
compared with that of its query.
"""

import shutil

import pytest

from tests.events.store.bench import rows_of
from tests.snapshots import copy_of


def put_back(memory, name, copy):
    """Put a copy in the place of a directory of the root."""
    memory.bench.close()
    shutil.rmtree(memory.root / name)
    copy_of(copy, memory.root / name)
    memory.bench.reopen()


def copied(memory, name):
    """Copy a directory of the root while nobody has it open."""
    memory.bench.close()
    copy = copy_of(memory.root / name, memory.root.parent / f"copy of {name}")
    memory.bench.reopen()
    return copy


def assert_shown_as_queried(memory):
    assert memory.rows() == rows_of(memory.do("QUERY order"))


@pytest.mark.parametrize("more", [2, 4, 9])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_rows_of_before_a_copy_was_put_back_are_not_shown(memory, more, is_sealed):
    memory.store(4)
    memory.remember()
    copy = copied(memory, "order")
    memory.store(4)
    assert memory.numbers() == [*range(8)]
    put_back(memory, "order", copy)
    memory.store(more)
    if is_sealed:
        memory.seal()
    assert memory.numbers() == [*range(4), *range(8, 8 + more)]
    memory.store()
    assert_shown_as_queried(memory)
    assert memory.message() == "OK"


def test_frames_of_before_a_copy_was_put_back_stay_where_it_has_their_rows(memory):
    memory.store(4)
    memory.remember()
    memory.numbers()
    (frame,) = memory.frames()
    copy = copied(memory, "order")
    memory.store(4)
    put_back(memory, "order", copy)
    memory.store(1)
    assert_shown_as_queried(memory)
    assert frame in memory.frames()


@pytest.mark.parametrize("is_merged", [False, True])
def test_older_frames_that_were_put_back_are_shown_with_what_came_since(memory, is_merged):
    memory.store(4)
    memory.remember()
    memory.numbers()
    copy = copied(memory, "~remembered")
    for _ in range(5):
        memory.store(3)
        memory.numbers()
    if is_merged:
        copy_of(copy, memory.root / "~remembered")
    else:
        put_back(memory, "~remembered", copy)
    assert memory.numbers() == [*range(19)]
    memory.store()
    assert memory.numbers() == [*range(20)]
    assert len(memory.lists()) == 1


def test_query_that_was_put_back_can_be_forgotten_and_remembered_anew(memory):
    memory.store(4)
    memory.remember()
    memory.numbers()
    copy = copied(memory, "~remembered")
    memory.do("FORGET mine")
    memory.remember("WHERE n > 1")
    assert memory.numbers() == [2, 3]
    put_back(memory, "~remembered", copy)
    memory.store()
    assert memory.numbers() == [*range(5)]
    memory.do("FORGET mine")
    memory.remember("WHERE n > 2")
    assert memory.numbers() == [3, 4]
    assert len(memory.lists()) == 1
