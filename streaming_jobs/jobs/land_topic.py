"""`land_topic`: what is sealed of a stream into its Delta table, and the table as a frame of Spark.

    rows = land_topic(spark, root, "telemetry")
    python -m streaming_jobs.jobs.land_topic ROOT STREAM --once

The table is that of the lake (docs/LAKE.md), and how rows come into it is the lake's to know: each
once, in commits that anybody may try. A worker whose stream has the option `lake` does the same by
itself. The command starts no Spark.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pyspark.sql import DataFrame, SparkSession

from storage_core import InvalidRequestError, StreamReader, describe_stream
from storage_core.catalog.lake_uri import refuse_lake_within
from storage_core.lake import (
    LakeTarget,
    PublishReport,
    lake_options,
    lake_target,
    publish_stream,
    table_files,
)
from storage_core.platform.overriding import override
from storage_core.remote.addresses import names_servers
from streaming_jobs.common.job_options import typer
from streaming_jobs.jobs.command import Once, Stop, StreamName, Trigger, outcome, say
from streaming_jobs.jobs.roots import root_of
from streaming_jobs.jobs.stream_query import TRIGGER
from streaming_jobs.parts import table_frame

NAME: Final = "land_topic"
Root = Annotated[
    str,
    typer.Argument(metavar="ROOT", help="Directory that holds the streams.", show_default=False),
]
Into = Annotated[
    str | None,
    typer.Argument(
        metavar="INTO",
        help="Where the table is: a directory, s3://BUCKET/PATH, gs://…, abfss://….",
        show_default="the stream's option `lake`",
    ),
]
AcceptHole = Annotated[
    bool,
    typer.Option(
        "--accept-hole",
        help="Go on where the log begins above what has landed; the table never has what lies "
        "between.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Land shards that another log lands here, in its place; it is refused from then on.",
    ),
]
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
# What earlier versions laid beside the files of Parquet that they landed.
_EARLIER: Final = "_landing"
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s+([a-z]+?)s?\b", re.IGNORECASE)
_SERVED: Final = (
    "what owners have sealed they publish themselves, where the stream has the option `lake`; else "
    "run it on the machine that has the root"
)
# Options of earlier versions, and what is there instead.
_GONE: Final[Mapping[str, str]] = {
    "server": _SERVED,
    "schema": "the table has a column for each field of each schema",
    "columns": "select them where you read",
    "mode": "a value that cannot be read lands as bytes, in `payload`",
    "partition": "engines choose files by the least and largest `primary` of each; filter by it",
    "max_rows": "a commit has a million rows or so at most",
    "skip_lost": "`--accept-hole` goes on where the log begins above what has landed",
    "checkpoint": "the table itself says how far it has come",
    "size_wanted": "the files are the stream's parts, and are merged with them",
    "master": "the command starts no Spark",
    "conf": "the command starts no Spark",
}
# Those of a call alone.
_GONE_OF_CALLS: Final = dict.fromkeys(
    ("once", "trigger"), "a call lands what is sealed by then; a worker goes on by itself"
)


def land_topic(  # noqa: PLR0913 - what a job is asked for
    spark: SparkSession,
    root: str | Path,
    stream: str,
    into: str | Path | LakeTarget | None = None,
    *,
    accept_hole: bool = False,
    take_over: bool = False,
    **gone: object,
) -> DataFrame:
    """Land what is sealed of a stream in its table; return the rows of the table.

    The frame has the files of one version, which stay for the stream's `lake_history`. From then on
    a query over it ends (`FAILED_READ_FILE.FILE_NOT_EXIST`); ask for a frame anew.

    Args:
        spark: The session; Delta's jars are not needed.
        root: The directory that holds the streams.
        stream: The stream.
        into: Where the table is; if None where the stream's option `lake` says.
        accept_hole: Go on where the log begins above what has landed.
        take_over: Land shards that another log lands there, in its place.
        gone: Options of earlier versions, which are refused.

    Raises:
        InvalidRequestError: It cannot be done as asked, or nothing is sealed.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        CorruptionError: A part is damaged; all else has landed.
        UnavailableError: The store does not answer.
    """
    unknown = next((name for name in gone if name not in {**_GONE, **_GONE_OF_CALLS}), None)
    if unknown is not None:
        message = f"land_topic() got an unexpected keyword argument {unknown!r}"
        raise TypeError(message)
    _refuse(gone, {**_GONE, **_GONE_OF_CALLS})
    place, target = _places(root, stream, into)
    _land(place, stream, target, accept_hole=accept_hole, take_over=take_over)
    table = table_files(place, stream, target)
    if table is None:
        message = f"nothing of {stream!r} is sealed yet: `shardlog seal {place} {stream}` seals it"
        raise InvalidRequestError(message)
    return table_frame(spark, table)


def _refuse(options: Iterable[str], gone: Mapping[str, str]) -> None:
    for option in options:
        if option in gone:
            message = f"land_topic has no {option} any more: {gone[option]}"
            raise InvalidRequestError(message)


def _places(
    root: str | Path, stream: str, into: str | Path | LakeTarget | None, options: Path | None = None
) -> tuple[str, LakeTarget]:
    """Return where the root is, and where the table."""
    if names_servers(root):
        message = f"land_topic takes no servers any more: {_SERVED}"
        raise InvalidRequestError(message)
    place = root_of(root)
    uri = describe_stream(place, stream).options.lake if into is None else into
    if uri is None:
        message = (
            f"{stream!r} has no lake: name a directory or s3://BUCKET/PATH behind the stream, or "
            f"`shardlog alter {place} {stream} lake=…`"
        )
        raise InvalidRequestError(message)
    target = uri if isinstance(uri, LakeTarget) else _target(str(uri), options)
    refuse_lake_within(Path(place), target.uri)
    directory = target.directory
    if directory is not None and (directory / _EARLIER).exists():
        message = (
            f"{directory} has files of Parquet that an earlier version landed: they stay readable; "
            "name another directory, whose table gets all that is sealed"
        )
        raise InvalidRequestError(message)
    return place, target


def _target(place: str, options: Path | None) -> LakeTarget:
    uri = place if _SCHEME.match(place) else str(Path(place).absolute())
    return lake_target(uri, lake_options(None, options))


def _land(
    root: str, stream: str, target: LakeTarget, *, accept_hole: bool, take_over: bool
) -> tuple[PublishReport, str]:
    """Publish what is sealed; return what was done, and in a line."""
    report = publish_stream(root, stream, target, accept_hole=accept_hole, take_over=take_over)
    with StreamReader.open(root, stream) as reader:
        ends = reader.committed()
    left = sum(max(0, ends[shard] - one.end) for shard, one in report.shards.items())
    done = f"{_counted(report.rows, 'row', 'rows')} landed" if report.commits else "nothing new"
    rest = f"; not sealed yet: {_counted(left, 'address', 'addresses')}" if left else ""
    return report, f"{done} in {report.uri}{rest}"


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def command(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    into: Into = None,
    once: Once = False,
    trigger: Trigger = TRIGGER,
    accept_hole: AcceptHole = False,
    take_over: TakeOver = False,
    lake_options: LakeOptions = None,
) -> None:
    """Land what is sealed of a stream in its Delta table, each row once.

    Example: python -m streaming_jobs.jobs.land_topic ./data telemetry ./lake --once
    """
    place, target = _places(root, stream, into, lake_options)
    with Stop() as stop:
        while not stop.wanted.is_set():
            report, line = _land(
                place, stream, target, accept_hole=accept_hole, take_over=take_over
            )
            if once or report.commits:
                say(NAME, line)
            if once:
                break
            stop.wanted.wait(_seconds(trigger))


def _seconds(span: str) -> float:
    """Return how long a span of Spark's is, as '30 seconds'."""
    amounts = {f"{unit.lower()}s": float(amount) for amount, unit in _SPAN.findall(span)}
    return timedelta(**amounts).total_seconds()


class _Command(typer.core.TyperCommand):
    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options of earlier versions before anything is missed."""
        words = (word.partition("=")[0] for word in args)
        names = (word[2:].replace("-", "_") for word in words if word.startswith("--"))
        _refuse(names, _GONE)
        return super().parse_args(ctx, args)


def application() -> typer.Typer:
    """Return the command."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(NAME, cls=_Command)(command)
    return app


if __name__ == "__main__":
    sys.exit(outcome(application(), f"python -m streaming_jobs.jobs.{NAME}", NAME))
