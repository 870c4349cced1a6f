"""Arguments and options of `shardlog sql`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import OutputOption, Overwrite, Root, To
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
        help="What DuckDB may hold in memory; what needs more goes to disk. Without it a quarter "
        "of the memory, and no less than 1024.",
        show_default=False,
    ),
]
VerifyChecksums = Annotated[
    bool,
    typer.Option(help="Compare what is read of parts with their checksums."),
]
AllowExternalAccess = Annotated[
    bool,
    typer.Option(
        "--allow-external-access",
        help="Let the query read other files too, and DuckDB load extensions. Without it a query "
        "reads streams and nothing else.",
    ),
]


@done_in("connectors.cli.commands.sql")
def sql(  # noqa: PLR0913 - one parameter an option
    root: Root,
    query: Query = None,
    file: QueryFile = None,
    form: OutputOption = None,
    to: To = None,
    overwrite: Overwrite = False,
    memory_mib_max: MemoryMib = None,
    verify_checksums: VerifyChecksums = True,
    allow_external_access: AllowExternalAccess = False,
) -> None:
    """Ask streams in SQL: their parts and the rows that are not sealed yet, as of this moment.

    A stream is a table by its name, in quotes where that has a dot or a dash. The column "primary"
    is written in quotes. Needs DuckDB: pip install 'shardlog[sql]'.

    Example: shardlog sql ./data 'SELECT count(*) FROM telemetry'
    """
