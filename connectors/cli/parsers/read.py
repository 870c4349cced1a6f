"""Arguments and options of `shardlog read`."""

from typing import Annotated, Literal

import typer

from connectors.cli.parsing.options import (
    Columns,
    Ids,
    KeyHexes,
    KeyTexts,
    Limit,
    OutputOption,
    Overwrite,
    Raw,
    RootOrServers,
    SchemaFile,
    StreamName,
    To,
)
from connectors.cli.parsing.servers import by_server
from connectors.cli.parsing.work import done_in

Start = Annotated[
    str | None,
    typer.Option(
        metavar="PRIMARY",
        help="Least primary: an integer, or a time as 2026-01-31T12:00:00Z, UTC without a zone.",
    ),
]
End = Annotated[
    str | None, typer.Option(metavar="PRIMARY", help="Largest primary, inclusive; as --start.")
]
LimitPerId = Annotated[
    int, typer.Option(metavar="N", min=0, help="Most records of each id or key; 0 for all.")
]

Latest = Annotated[bool, typer.Option("--latest", help="Only the newest record of each id.")]

LatestBy = Annotated[
    Literal["primary", "key"] | None,
    typer.Option(
        help="Only the newest: of records of one id and primary, or of one id and key that with "
        "the largest primary. Tombstones that are the newest are hidden.",
    ),
]
Tombstones = Annotated[
    bool,
    typer.Option(
        "--tombstones", help="With --latest-by, also show tombstones that are the newest."
    ),
]
Count = Annotated[bool, typer.Option("--count", help="Print only how many records there are.")]

NullKey = Annotated[
    bool,
    typer.Option(
        "--null-key",
        help="Only records that came without a key, of a topic's stream; with a key dictionary it "
        "stands beside other keys.",
    ),
]


@by_server
@done_in("connectors.cli.commands.read")
def read(  # noqa: PLR0913 - one parameter an option
    root: RootOrServers,
    stream: StreamName,
    ids: Ids = None,
    start: Start = None,
    end: End = None,
    limit: Limit = 0,
    limit_per_id: LimitPerId = 0,
    latest: Latest = False,
    columns: Columns = None,
    form: OutputOption = None,
    count: Count = False,
    null_key: NullKey = False,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    latest_by: LatestBy = None,
    tombstones: Tombstones = False,
    to: To = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    schema: SchemaFile = None,
) -> None:
    """Read records by id or key, and primary, late ones in their place.

    They are ordered by id or key, then primary.

    Example: shardlog read ./data telemetry --id 17 --start 2026-01-31T12:00:00Z
    """
