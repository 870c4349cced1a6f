"""Prints lines, tables and JSON to standard output.

Everything is flushed at once: a reader that has closed the pipe ends the command with exit code 0.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from connectors.output_formats.aligned_table import AlignedTable
from connectors.output_formats.json_text import json_text
from connectors.output_formats.whole_file import failing


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; end the command if the reader has closed the pipe.

    Raises:
        typer.Exit: The reader has closed the pipe.
    """
    if lines:
        with _to_standard_output():
            # color=True: typer would remove colour codes, which are part of the text.
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
        # The interpreter would flush what is left in the buffer, and fail.
        sys.stdout = io.StringIO()
        raise typer.Exit(0) from error


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> None:
    """Print figures as one aligned table."""
    print_lines(AlignedTable(columns).lines(rows))


def print_json(value: object) -> None:
    """Print one value as one line of JSON."""
    print_lines([json_text(value)])
