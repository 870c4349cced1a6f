"""The `shardlog` command: its verbs, and how it says that something went wrong.

An error of ours is one line on standard error and an exit code that means something
(exit_codes.py); a traceback is a bug.
"""

import sys
from typing import Final

import typer

from connectors.cli import dev, dlq, drop, produce, read, status, streams, tail, worker
from connectors.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE, exit_code_for
from storage_core import ShardlogError

_HELP: Final = "Kafka topics into a time-indexed shard log, and what is in it."

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(dev.app, name="dev")
app.add_typer(dlq.app, name="dlq")
app.command("worker")(worker.worker)
app.command("produce")(produce.produce)
app.command("streams")(streams.streams)
app.command("read")(read.read)
app.command("tail")(tail.tail)
app.command("status")(status.status)
app.command("drop")(drop.drop)


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code."""
    sys.exit(outcome(arguments))


def outcome(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    command = typer.main.get_command(app)
    try:
        answer = command.main(arguments, prog_name="shardlog", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        typer.echo(f"shardlog: {error.format_message()}", err=True)
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever read our output has enough.
        sys.stderr.close()
        return 0
    except ShardlogError as error:
        first, *_ = str(error).splitlines()
        typer.echo(f"shardlog: {first}", err=True)
        return exit_code_for(error)
    return answer if isinstance(answer, int) else 0


if __name__ == "__main__":
    run()
