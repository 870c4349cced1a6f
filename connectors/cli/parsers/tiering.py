"""Arguments and options of `shardlog seal`, `compact`, `trim` and `parts`."""

from typing import Annotated

import typer

from connectors.cli.parsing.options import AsJson, Root, StreamName
from connectors.cli.parsing.work import done_in

RowsMin = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Leave a shard alone that has fewer unsealed rows."),
]
Mend = Annotated[
    bool,
    typer.Option(
        "--mend",
        help="First read all parts, and make those again of the log that are damaged or gone.",
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


@done_in("connectors.cli.commands.tiering")
def seal(
    root: Root,
    stream: StreamName,
    rows_min: RowsMin = 1,
    mend: Mend = False,
    as_json: AsJson = False,
) -> None:
    """Make parts of all rows that are not sealed yet: files of Parquet, sorted by id and time.

    The log keeps the rows too, until `shardlog trim`. A worker does all this by itself. Refused
    while a writer holds the stream.

    Example: shardlog seal ./data telemetry
    """


@done_in("connectors.cli.commands.tiering")
def compact(root: Root, stream: StreamName, as_json: AsJson = False) -> None:
    """Join small neighbouring parts to larger ones, so that queries open few files.

    Five or more of a level become one of the next, of a million rows at most. The files that were
    joined stay for `keep_replaced_minutes`, for queries under way. Refused while a writer holds the
    stream.

    Example: shardlog compact ./data telemetry
    """


@done_in("connectors.cli.commands.tiering")
def trim(
    root: Root, stream: StreamName, keep_hot_hours: KeepHotHours = 0.0, as_json: AsJson = False
) -> None:
    """Free the log of blocks whose rows are in parts: from then on parts answer in their place.

    Each block is first made again of its parts and compared. Parts are the only copy of these rows
    then: back them up. Refused while a writer holds the stream.

    Example: shardlog trim ./data telemetry --keep-hot-hours 48
    """


@done_in("connectors.cli.commands.tiering")
def parts(root: Root, stream: StreamName, wide: Wide = False, as_json: AsJson = False) -> None:
    """List the parts of a stream: its files of Parquet, which any tool may read.

    They lie in ROOT/STREAM/shard-NNNN/parts; --json has whole paths. A level tells how often rows
    were joined with others; "from" is the time of the first.

    Example: shardlog parts ./data telemetry
    """
