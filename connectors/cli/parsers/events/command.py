"""Arguments and options of `shardlog command`."""

from typing import Annotated, Literal

import typer

from connectors.cli.parsing.options import RootOrServers
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in

CommandForm = Literal["table", "json", "jsonl", "csv", "arrow"]
Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMMAND",
        help="A command, or several with ; between. - is standard input, as without any where "
        "something is piped there. On a terminal, without any: a shell, until Ctrl-D.",
        show_default=False,
    ),
]
FormOption = Annotated[
    CommandForm,
    typer.Option(
        "--format",
        help="An aligned table; one JSON object with status, message and rows; a row a line; CSV; "
        "or an Arrow stream.",
    ),
]


@by_server
@done_in("connectors.cli.commands.events.command")
def command(
    root: RootOrServers,
    texts: Texts = None,
    form: FormOption = "table",
) -> None:
    """Store and query typed events, by commands: DEFINE, STORE, QUERY, REPLAY and others.

    The first command that writes takes the event streams of the root until the last one is done;
    while a server has them, use --server. docs/EVENTS.md has the commands. Needs lark and DuckDB:
    pip install 'shardlog[events]'.

    Example: shardlog command ./data 'QUERY order COUNT BY status'
    """
