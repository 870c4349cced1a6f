"""A bar on a terminal for what takes long; elsewhere nothing is drawn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield what is told how many records are done; it draws on a terminal only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("records"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("records", total=total)
        yield lambda done: progress.update(task, completed=done)
