"""Who waits for an ending is told by another thread, once it has come."""

import threading

from typed_events.store.submission import Ending


def test_wait_ends_once_another_thread_has_set_it() -> None:
    ending = Ending()
    assert not ending.wait(0.0)
    assert not ending.is_set()
    thread = threading.Thread(target=ending.set)
    thread.start()
    assert ending.wait(60.0)
    thread.join()
    assert ending.is_set()


def test_what_has_come_is_waited_for_again_without_a_wait_and_set_again() -> None:
    ending = Ending()
    ending.set()
    ending.set()
    assert ending.wait(60.0)
    assert ending.wait(0.0)
