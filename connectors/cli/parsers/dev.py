"""Arguments and options of `shardlog dev`."""

from typing import Annotated

import typer

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.work import done_in

app = typer.Typer(
    cls=Group,
    help='Run a real Kafka broker on this machine.\n\nExample: eval "$(shardlog dev up)"',
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

WithRegistry = Annotated[bool, typer.Option("--registry", help="Start a schema registry too.")]

InForeground = Annotated[
    bool, typer.Option("--foreground", help="Stay, and stop all when interrupted or killed.")
]


@app.command("up")
@done_in("connectors.cli.commands.dev")
def up(registry: WithRegistry = False, foreground: InForeground = False) -> None:
    """Start a broker and print its address as shell assignments.

    The first start fetches the broker (45 MB), and with --registry the registry (139 MB). What
    already runs is left alone and its address printed again. Where KAFKA_BOOTSTRAP is set already
    (for the registry SCHEMA_REGISTRY_URL), that server is used and none is started.
    All who have the same SHARDLOG_STATE, a directory, share its servers.

    Example: eval "$(shardlog dev up --registry)"
    """


@app.command("down")
@done_in("connectors.cli.commands.dev")
def down() -> None:
    """Stop what `shardlog dev up` started, and remove its data.

    It stops them for all who share them: those of the same SHARDLOG_STATE, a directory.

    Example: eval "$(shardlog dev down)"
    """


@app.command("status", short_help="Show what runs, and whether it answers.")
@done_in("connectors.cli.commands.dev")
def status() -> None:
    """Show what runs, and whether it answers; the exit code is 3 when something does not.

    It looks at the servers of SHARDLOG_STATE, a directory.

    Example: shardlog dev status
    """
