"""A bar on a terminal for what takes long; elsewhere nothing is drawn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from connectors.cli.output.formatting import counted

_BAR_CELLS: Final = 24


@contextmanager
def progress_bar(total: int | None, noun: str = "record") -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many are done and draws a bar on a terminal.

    Args:
        total: How many there are; None if that is not known.
        noun: What one of them is called.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(_BAR_CELLS), TextColumn("{task.fields[far]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total, far=how_far(0, total, noun))
        yield lambda done: progress.update(task, completed=done, far=how_far(done, total, noun))


def how_far(done: int, total: int | None, noun: str) -> str:
    """Return how far work is; the total may have grown since it was counted."""
    if total is None:
        return counted(done, noun)
    return f"{done:,} of {counted(max(done, total), noun)}"
