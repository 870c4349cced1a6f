"""Arguments and options of `shardlog sql`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import OutputOption, Overwrite, RootOrServers, To
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in

Query = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERY",
        help="SQL as DuckDB understands it; streams are tables. Without it, or for -, standard "
        "input has it.",
        show_default=False,
    ),
]
QueryFile = Annotated[
    str | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read the query from this file, - for standard input.",
    ),
]
MemoryMib = Annotated[
    int | None,
    typer.Option(
        metavar="MIB",
        min=32,
        help="Memory limit of DuckDB; what needs more spills to disk. Default: a quarter of the "
        "memory, at least 1024.",
        show_default=False,
    ),
]
VerifyChecksums = Annotated[
    bool,
    typer.Option(help="Verify the checksums of the parts that are read."),
]
AllowExternalAccess = Annotated[
    bool,
    typer.Option(
        "--allow-external-access",
        help="Let the query read other files too, and DuckDB load extensions. Without it a query "
        "reads streams and nothing else.",
    ),
]


@by_server
@done_in("connectors.cli.commands.sql")
def sql(  # noqa: PLR0913 - one parameter an option
    root: RootOrServers,
    query: Query = None,
    file: QueryFile = None,
    form: OutputOption = None,
    to: To = None,
    overwrite: Overwrite = False,
    memory_mib_max: MemoryMib = None,
    verify_checksums: VerifyChecksums = True,
    allow_external_access: AllowExternalAccess = False,
) -> None:
    """Run SQL over streams: their parts and the rows that are not sealed yet.

    A query reads one snapshot. A stream is a table of its name, in quotes if it has a dot or dash.
    The column "primary" is written in quotes. Needs DuckDB: pip install 'shardlog[sql]'. With
    --server DuckDB runs here, and the server gives it what the query reads of parts.

    Example: shardlog sql ./data 'SELECT count(*) FROM telemetry'
    """
