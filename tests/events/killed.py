"""Clients in a process of their own that are killed once some more of their steps are noted."""

from collections.abc import Callable
from typing import Any

from tests.children import start_child
from tests.waiting import await_that


def kill_after(
    steps: int, count_noted: Callable[[], int], run: Callable[..., None], plan: Any
) -> None:
    """Let clients run by a plan, and kill them once so many steps more are noted."""
    wanted = count_noted() + steps
    process = start_child(run, plan)
    await_that(
        lambda: count_noted() >= wanted or not process.is_alive(), f"{wanted} notes", wait_s=600
    )
    process.kill()
    process.join()
