"""Arguments and options of `shardlog seal`, `compact`, `trim` and `parts`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, Root, StreamName
from connectors.cli.parsing.work import done_in

RowsMin = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Leave a shard alone that has fewer unsealed rows."),
]
Rebuild = Annotated[
    bool,
    typer.Option(
        "--rebuild",
        help="First read all parts, and rebuild those from the log that are damaged or gone.",
    ),
]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="For wide terminals: also the kind of value, addresses, up to which time, and when a "
        "part was made.",
    ),
]
KeepHotHours = Annotated[
    float,
    typer.Option(
        metavar="H", min=0, help="Leave blocks that were committed less than so many hours ago."
    ),
]


@done_in("connectors.cli.commands.cold")
def seal(
    root: Root,
    stream: StreamName,
    rows_min: RowsMin = 1,
    rebuild: Rebuild = False,
    as_json: AsJson = False,
) -> None:
    """Write all rows that are not sealed yet to parts: Parquet files, sorted by id and time.

    The log keeps the rows too, until `shardlog trim`. A worker does all this by itself. Refused
    while a writer holds the stream.

    Example: shardlog seal ./data telemetry
    """


@done_in("connectors.cli.commands.cold")
def compact(root: Root, stream: StreamName, as_json: AsJson = False) -> None:
    """Merge small neighbouring parts into larger ones, so that queries open few files.

    Five or more of a level become one of the next, of a million rows at most. The files that were
    merged stay for `keep_replaced_minutes`, for queries under way. Refused while a writer holds the
    stream.

    Example: shardlog compact ./data telemetry
    """


@done_in("connectors.cli.commands.cold")
def trim(
    root: Root, stream: StreamName, keep_hot_hours: KeepHotHours = 0.0, as_json: AsJson = False
) -> None:
    """Delete the log's copy of rows that are in parts: from then on parts are the only copy.

    Each block is first rebuilt of its parts and compared. Back the parts up. Refused while a
    writer holds the stream.

    Example: shardlog trim ./data telemetry --keep-hot-hours 48
    """


@done_in("connectors.cli.commands.cold")
def parts(root: Root, stream: StreamName, wide: Wide = False, as_json: AsJson = False) -> None:
    """List the parts of a stream: its files of Parquet, which any tool may read.

    They lie in ROOT/STREAM/shard-NNNN/parts; --json has whole paths. A level tells how often rows
    were merged with others; "from" is the time of the first.

    Example: shardlog parts ./data telemetry
    """
