"""A process that works for another one: its answers, and what is told where there is none."""

import pytest

from storage_core import InvalidRequestError, UnavailableError
from storage_core.platform.work.process import WorkProcess
from storage_core.testing import ManualClock
from tests.waiting import WAIT_MAX_S

DOUBLING = """
from storage_core import InvalidRequestError
from storage_core.platform.work.serving import serve_orders

def doubled(order, on_rows):
    print("what a library prints is no answer")
    on_rows(1)
    if order < 0:
        raise InvalidRequestError("less than nothing", shard=3)
    return 2 * order

serve_orders(doubled)
"""
SILENT = "import threading; threading.Event().wait()"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start what a program is in another process; it is closed in the end."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    processes = []

    def process_of(program, work_max_s=5 * WAIT_MAX_S):
        (tmp_path / "worker_of_test.py").write_text(program)
        processes.append(WorkProcess("worker_of_test", "test", work_max_s, ManualClock()))
        return processes[-1]

    yield process_of
    for process in processes:
        process.close()


def test_orders_are_answered_one_after_the_other_by_one_process(start):
    process = start(DOUBLING)
    assert process.process_id is None
    assert [process.answer(number) for number in range(3)] == [0, 2, 4]
    assert (process.process_id is not None, process.deaths) == (True, 0)


def test_error_of_an_order_is_raised_as_it_was_and_the_process_goes_on(start):
    process = start(DOUBLING)
    with pytest.raises(InvalidRequestError, match="less than nothing") as raised:
        process.answer(-1)
    assert raised.value.shard == 3
    assert process.answer(21) == 42


def test_process_that_does_not_answer_in_time_is_killed_and_that_is_told(start):
    process = start(SILENT, work_max_s=0.1)
    with pytest.raises(UnavailableError, match=r"did not answer in 0\.1 s and was killed"):
        process.answer(1)
    assert (process.deaths, process.is_paused, process.process_id) == (1, True, None)


def test_process_that_ends_by_itself_is_told_by_its_exit_code(start):
    process = start("raise SystemExit(7)")
    with pytest.raises(UnavailableError, match="the test process ended with exit code 7"):
        process.answer(1)
