"""Arguments and options of `shardlog lake`."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.parsing.group import Group
from connectors.cli.parsing.options import AsJson, Execute, KafkaSettings, Root, StreamName
from connectors.cli.parsing.work import done_in

app = typer.Typer(
    cls=Group,
    help="Publish the parts of a stream as a Delta table; show, check and vacuum that table.\n\n"
    "The stream's option `lake` says where it is; a worker publishes by itself. Needs deltalake: "
    "pip install 'shardlog[lake]'.\n\n"
    "Example: shardlog lake publish ./data telemetry",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

LakeOptions = Annotated[
    Path | None,
    typer.Option(
        "--lake-options",
        metavar="FILE",
        # The environment names no default of it: that file stands below single variables
        # (storage_core/lake/options_file.py).
        help="A TOML file of options of the store, by delta-rs' names; its keys too. It stands "
        "above the environment, which has them one by one (SHARDLOG_LAKE__OPTIONS__AWS_REGION), in "
        "the file of SHARDLOG_LAKE_OPTIONS_FILE, or by their own names (AWS_ACCESS_KEY_ID).",
    ),
]
ReadWhole = Annotated[
    bool,
    typer.Option("--read", help="Also read each file whole, and compare its bytes and its rows."),
]
AcceptHole = Annotated[
    bool,
    typer.Option(
        "--accept-hole",
        help="Go on where the log begins above what is published; the table never has what lies "
        "between.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Publish shards that another log publishes, in its place. That log is refused then, "
        "and its root can lose rows that only the lake has.",
    ),
]
CreateTable = Annotated[
    bool,
    typer.Option(
        "--create-table",
        help="Make the table anew where it is gone for good. Refused where only the lake had some "
        "parts, and while a shard cannot be read, which may have such parts.",
    ),
]
OtherRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="ROOT",
        help="Another root that has the stream, or a copy of one: files of parts are taken from "
        "there, by their digests; may be given several times.",
    ),
]
Shards = Annotated[
    list[int],
    typer.Option(
        "--shard", metavar="N", help="The shard; may be given several times.", show_default=False
    ),
]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Also where the log has rows that neither the table nor Kafka may have.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="KAFKA_BOOTSTRAP",
        help="Kafka brokers, which are asked whether they have what comes behind the table.",
    ),
]
GraceHours = Annotated[
    float,
    typer.Option(
        metavar="H", min=0, max=876_000, help="How old an upload is that no version ever named."
    ),
]


@app.command("publish", short_help="Publish what is sealed.")
@done_in("connectors.cli.commands.lake.publish")
def publish(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    accept_hole: AcceptHole = False,
    take_over: TakeOver = False,
    create_table: CreateTable = False,
    lake_options: LakeOptions = None,
    as_json: AsJson = False,
) -> None:
    """Make the files of a stream's table those of its parts, in commits that are whole.

    Rows that are not sealed are not published: `shardlog seal` makes parts of them. It reads beside
    a writer and changes the table alone, so any number of processes may publish at once.

    Example: shardlog lake publish ./data telemetry
    """


@app.command("status", short_help="Show how far each shard is published.")
@done_in("connectors.cli.commands.lake.status")
def status(
    root: Root, stream: StreamName, lake_options: LakeOptions = None, as_json: AsJson = False
) -> None:
    """Show how far each shard is published, and how old the oldest row is that is not.

    `published` and `sealed` are addresses: rows below the first are in the table, rows from there
    to the second are in parts alone. `unpublished` counts addresses up to `committed`. `owner` is
    the log that published the shard last: it alone may, or one that began from its rows. A shard
    whose log cannot be read has a line of its own; the exit code is 5 then.

    Example: shardlog lake status ./data telemetry
    """


@app.command("vacuum", short_help="Delete files that the table has no more.")
@done_in("connectors.cli.commands.lake.vacuum")
def vacuum(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    grace_hours: GraceHours = 24.0,
    execute: Execute = False,
    lake_options: LakeOptions = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that no version of the table names which is within the stream's lake_history.

    Uploads that were never committed go too, once they are older than the grace; nothing else does.
    Without --execute it only lists what would go.

    Example: shardlog lake vacuum ./data telemetry --execute
    """


@app.command("check", short_help="Compare the table with the part list.")
@done_in("connectors.cli.commands.lake.check")
def check(
    root: Root,
    stream: StreamName,
    read: ReadWhole = False,
    lake_options: LakeOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare the files of a stream's table with its parts: names, sizes and rows, by range.

    Files of parts on this machine are compared too. A line says what was compared; the exit code is
    5 where there is a problem, as with a shard whose log is damaged: the others are compared. What
    the next publish does, as for parts that were merged since, is none. Nothing is changed:
    `shardlog lake repair` does that.

    Example: shardlog lake check ./data telemetry --read
    """


@app.command("repair", short_help="Make good what was lost or damaged.")
@done_in("connectors.cli.commands.lake.repair")
def repair(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    read: ReadWhole = False,
    others: OtherRoots = None,
    lake_options: LakeOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare as `check` does, and make good what the table, its store or this machine has lost.

    A damaged part is brought from the lake, and what the lake lacks is uploaded from the parts.
    What neither has is taken from an archived log of the stream, or from the roots of --from. Every
    file is compared with its digest. Where there is a table, what is sealed is published. A line
    says what was done with each file, and what is wrong still; the exit code is 5 where something
    is.

    Example: shardlog lake repair ./data telemetry --read
    """


@app.command("begin", short_help="Let shards begin anew from the table.")
@done_in("connectors.cli.commands.lake.begin")
def begin(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    shard: Shards,
    accept_loss: AcceptLoss = False,
    execute: Execute = False,
    bootstrap: Brokers = None,
    kafka: KafkaSettings = None,
    lake_options: LakeOptions = None,
    as_json: AsJson = False,
) -> None:
    """Give shards new logs that begin with what the table has, as where a log is damaged.

    The log before is archived whole. The worker goes on in Kafka at the published address. Refused
    where the log has rows above it, unless Kafka has them as the brokers say; and while a writer
    holds the shard. Without --execute it only says what would happen.

    Example: shardlog lake begin ./data telemetry --shard 2 --execute
    """
