"""How lines and figures are printed.

Everything is printed through `print_lines`, which flushes: a reader of our output that went away
is noticed there, and ends the command well.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from connectors.cli.output.aligned_table import AlignedTable
from connectors.output_formats.json_text import json_text
from connectors.output_formats.whole_file import failing


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; end the command if nobody reads them any more.

    Raises:
        typer.Exit: Whoever read our output has enough.
    """
    if lines:
        with _to_standard_output():
            # As they are: typer would take codes of colours out of them, which are part of a text.
            typer.echo("\n".join(lines), color=True)


def print_line(line: str) -> None:
    """Print one line; as with lines."""
    print_lines([line])


def print_bytes(data: bytes) -> None:
    """Print bytes as they are; as with lines."""
    with _to_standard_output():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _to_standard_output() -> Iterator[None]:
    try:
        with failing("writing to standard output"):
            yield
    except BrokenPipeError as error:
        # What is still in the buffer has no place to go when the interpreter flushes it.
        sys.stdout = io.StringIO()
        raise typer.Exit(0) from error


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> None:
    """Print figures as one aligned table."""
    print_lines(AlignedTable(columns).lines(rows))


def print_json(value: object) -> None:
    """Print one value as one line of JSON."""
    print_lines([json_text(value)])
