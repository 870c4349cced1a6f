"""The `shardlog` program: it runs a command, and prints an error as one line.

The exit code says what kind of error it was (exit_codes.py); a traceback is a bug.
"""

import sys
from contextlib import suppress
from typing import Annotated, Final

import typer

from connectors.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE, exit_code_for, one_line
from connectors.cli.output.standard_output import drop_refused_output, tell_refusals
from connectors.cli.parsing.servers import UNEXPECTED
from connectors.cli.parsing.table import CommandTable
from connectors.cli.standard_descriptors import fill_standard_descriptors
from connectors.cli.version import installed_version
from storage_core import ShardLockedError, ShardlogError

_PAUSE: Final = "shardlog group pause"
_HELP: Final = "Store Kafka topics in a time-indexed shard log, and read it."


def _version(is_requested: bool) -> None:  # noqa: FBT001 - as typer calls it
    if is_requested:
        typer.echo(f"shardlog {installed_version()}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandTable,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def shardlog(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Declare the options that belong to no command."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code."""
    fill_standard_descriptors()
    tell_refusals()
    sys.exit(outcome(arguments))


def outcome(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return _answer(arguments)
    except BrokenPipeError:
        # The reader has closed the pipe.
        return 0
    except ShardlogError as error:
        _complain(f"{one_line(error)}{_advice(error)}")
        return exit_code_for(error)
    finally:
        drop_refused_output()


def _answer(arguments: list[str] | None) -> int:
    command = typer.main.get_command(app)
    try:
        answer = command.main(arguments, prog_name="shardlog", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        _complain(_without_values(error.format_message()))
        return EXIT_USAGE
    return answer if isinstance(answer, int) else 0


def _advice(error: ShardlogError) -> str:
    """Return how a command that writes gets the shard, where the error does not say so itself."""
    is_advised = not isinstance(error, ShardLockedError) or _PAUSE in error.message
    return "" if is_advised else f"; if a worker has it, `{_PAUSE}` has it close the shard"


def _complain(reason: str) -> None:
    # If standard error is closed, the exit code still says it.
    with suppress(OSError):
        typer.echo(f"shardlog: {reason}", err=True)


def _without_values(message: str) -> str:
    """Leave out unexpected arguments: one may be the value of a setting, a secret."""
    before, unexpected, _ = message.partition(UNEXPECTED)
    if not unexpected:
        return message
    return f"{before}{UNEXPECTED}; a setting and its value are one argument, as key=value"


if __name__ == "__main__":
    run()
