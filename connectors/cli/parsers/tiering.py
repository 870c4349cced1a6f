"""Arguments and options of `shardlog seal`, `compact`, `trim` and `parts`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, Root, StreamName
from connectors.cli.parsing.work import done_in

RowsMin = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Skip a shard that has fewer unsealed rows."),
]
Rebuild = Annotated[
    bool,
    typer.Option(
        "--rebuild",
        help="First read all parts, and rebuild damaged or missing ones from the log.",
    ),
]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="For wide terminals: also the value schema, addresses, the time of the last row, and "
        "when the part was sealed.",
    ),
]
KeepHotHours = Annotated[
    float,
    typer.Option(
        metavar="H", min=0, help="Keep blocks that were committed less than so many hours ago."
    ),
]


@done_in("connectors.cli.commands.tiering")
def seal(
    root: Root,
    stream: StreamName,
    rows_min: RowsMin = 1,
    rebuild: Rebuild = False,
    as_json: AsJson = False,
) -> None:
    """Write all unsealed rows to parts: Parquet files, sorted by id and time.

    The log keeps the rows too, until `shardlog trim`. A worker seals by itself. Refused while a
    writer holds the stream.

    Example: shardlog seal ./data telemetry
    """


@done_in("connectors.cli.commands.tiering")
def compact(root: Root, stream: StreamName, as_json: AsJson = False) -> None:
    """Merge small neighbouring parts into larger ones, so that queries open few files.

    Five or more parts of a level become one of the next, of a million rows at most. The old files
    stay for `keep_replaced_minutes`, for queries that run. Refused while a writer holds the stream.

    Example: shardlog compact ./data telemetry
    """


@done_in("connectors.cli.commands.tiering")
def trim(
    root: Root, stream: StreamName, keep_hot_hours: KeepHotHours = 0.0, as_json: AsJson = False
) -> None:
    """Delete blocks of the log whose rows are in parts; reads then use the parts.

    Each block is first rebuilt from its parts and compared. Parts are then the only copy of these
    rows: back them up. Refused while a writer holds the stream.

    Example: shardlog trim ./data telemetry --keep-hot-hours 48
    """


@done_in("connectors.cli.commands.tiering")
def parts(root: Root, stream: StreamName, wide: Wide = False, as_json: AsJson = False) -> None:
    """List the parts of a stream: Parquet files that any tool can read.

    They are in ROOT/STREAM/shard-NNNN/parts; --json has whole paths. The level counts how often a
    part was compacted; "from" is the time of its first row.

    Example: shardlog parts ./data telemetry
    """
