"""The `shardlog` command: its verbs, and how it says that something went wrong.

An error of ours is one line on standard error and an exit code that means something
(exit_codes.py); a traceback is a bug.
"""

import sys
from typing import Annotated, Final

import typer

from connectors.cli import (
    alter,
    cold,
    dev,
    dlq,
    drop,
    exchange,
    expire,
    latest,
    produce,
    read,
    repair,
    schema,
    status,
    streams,
    tail,
    worker,
)
from connectors.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE, exit_code_for, one_line
from connectors.cli.shown import installed_version
from connectors.cli.standard_descriptors import fill_standard_descriptors
from storage_core import ShardlogError

_UNEXPECTED: Final = "unexpected extra argument(s)"
_HELP: Final = "Kafka topics into a time-indexed shard log, and what is in it."


def _version(is_asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if is_asked:
        typer.echo(f"shardlog {installed_version()}")
        raise typer.Exit


app = typer.Typer(
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
    """Hold what concerns no verb."""


app.add_typer(dev.app, name="dev", short_help="Run a real Kafka broker on this machine.")
app.add_typer(dlq.app, name="dlq", short_help="Look at records that could not be stored.")
app.add_typer(schema.app, name="schema", short_help="Check, register and show Avro schemas.")
app.command("worker", short_help="Store Kafka topics, exactly once, until Ctrl-C.")(worker.worker)
app.command("produce", short_help="Send telemetry, or JSON lines, to a topic.")(produce.produce)
app.command("streams", short_help="List the streams under a root.")(streams.streams)
app.command("read", short_help="Read records of ids or keys between two times.")(read.read)
app.command("latest", short_help="Show the newest record of each id or key.")(latest.latest)
app.command("tail", short_help="Show rows as they arrived, with their state.")(tail.tail)
app.command("status", short_help="Show how each shard stands, and what is lost.")(status.status)
app.command("verify", short_help="Read all that is stored, and tell what is wrong.")(repair.verify)
app.command("accept-loss", short_help="Go on without a lost range.")(repair.accept_loss)
app.command("alter", short_help="Change settings of a stream.")(alter.alter)
app.command("expire", short_help="Let go what a stream no longer keeps.")(expire.expire)
app.command("seal", short_help="Make parts of rows: sorted files of Parquet.")(cold.seal)
app.command("compact", short_help="Join small parts to larger ones.")(cold.compact)
app.command("trim", short_help="Free the log of rows that are in parts.")(cold.trim)
app.command("parts", short_help="List the parts of a stream.")(cold.parts)
app.command("sql", short_help="Ask streams in SQL.")(cold.sql)
app.command("export", short_help="Write a stream to Parquet, Avro or JSON.")(exchange.export)
app.command("import", short_help="Take an export into a stream.")(exchange.import_)
app.command("drop", short_help="Set a stream aside, or remove it.")(drop.drop)


def run(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code."""
    fill_standard_descriptors()
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
        typer.echo(f"shardlog: {_without_values(error.format_message())}", err=True)
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever read our output has enough.
        sys.stderr.close()
        return 0
    except ShardlogError as error:
        typer.echo(f"shardlog: {one_line(error)}", err=True)
        return exit_code_for(error)
    return answer if isinstance(answer, int) else 0


def _without_values(message: str) -> str:
    """Leave out arguments that nobody expected: one may be the value of a setting, a secret."""
    known, is_so, _ = message.partition(_UNEXPECTED)
    if not is_so:
        return message
    return f"{known}{_UNEXPECTED}; a setting and its value are one argument, as key=value"


if __name__ == "__main__":
    run()
