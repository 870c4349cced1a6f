"""Says on standard error how far a fetch is: a bar on a terminal, a few plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from connectors.dev_stack.bundles import Bundle

_LINES: Final = 4
_BYTES_A_MEGABYTE: Final = 1_000_000


@contextmanager
def fetch_progress(bundle: Bundle, directory: Path) -> Iterator[Callable[[], None]]:
    """Show how a directory fills; gives a function to call while it does."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    if console.is_terminal:
        with _bar(console, bundle, directory) as tick:
            yield tick
    else:
        yield _plain_lines(console, bundle, directory)


@contextmanager
def _bar(console: Console, bundle: Bundle, directory: Path) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as progress:
        total = bundle.megabytes * _BYTES_A_MEGABYTE
        task = progress.add_task(f"fetching {bundle.name}", total=total)
        yield lambda: progress.update(task, completed=min(total, bytes_below(directory)))


def _plain_lines(console: Console, bundle: Bundle, directory: Path) -> Callable[[], None]:
    console.print(f"fetching {bundle.name} ({bundle.megabytes} MB), once")
    told = 0

    def tick() -> None:
        nonlocal told
        megabytes = bytes_below(directory) / _BYTES_A_MEGABYTE
        step = int(_LINES * megabytes / bundle.megabytes)
        if told < step < _LINES:
            told = step
            console.print(f"  {megabytes:.0f} of {bundle.megabytes} MB")

    return tick


def bytes_below(directory: Path) -> int:
    """Return the size of all files of a directory in which others are at work."""
    total = 0
    with suppress(FileNotFoundError):
        for path in directory.rglob("*"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size if path.is_file() else 0
    return total
