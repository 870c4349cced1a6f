"""What the jobs' commands share: arguments, a session, a line a batch, signals, errors in one line.

A command starts Spark, begins its query and waits for it. SIGINT or SIGTERM end it once the batch
at hand is committed; a second one ends the process at once, and the checkpoint repeats the batch.
Errors of ours are one line and an exit code, those of `shardlog`.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, Self

import pyspark.java_gateway
import typer
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import storage_core
from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)
from streaming_jobs.jobs.pace import Pace, pace_of

EXIT_UNEXPECTED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
# The codes of `shardlog`, by the kind of error.
EXIT_CODES: Final[tuple[tuple[type[ShardlogError], int], ...]] = (
    (InvalidRequestError, EXIT_USAGE),
    (UnavailableError, 3),
    (ForeignDataError, 4),
    (CorruptionError, 5),
    (ShardPoisonedError, 6),
)
# Spark takes parts of a second too, which its types do not say.
_LOOK_S: Final[Any] = 0.25
_untyped: Any = pyspark.java_gateway
# As Spark shows an error that one of its Python processes ended with.
_TOLD: Final = re.compile(r"^(?:[\w.]*\.)?(\w+Error): (.+)$", re.MULTILINE)

Root = Annotated[
    Path,
    typer.Argument(metavar="ROOT", help="Directory that holds the streams.", show_default=False),
]
StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", show_default=False)
]
Once = Annotated[
    bool, typer.Option("--once", help="End with what is there now; else go on with what comes.")
]
Trigger = Annotated[
    str, typer.Option(metavar="SPAN", help="How often to look for new rows, as '30 seconds'.")
]
RowsMax = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        metavar="N",
        min=1,
        help="Take at most so many rows a batch.",
        show_default="all there are",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEMA",
        help="Schema to read values by: its JSON, a file, or a subject with a version, as the "
        "source's readerSchema.",
        show_default="the newest of the stream",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where the job keeps how far it came."),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Spark's master, on the machine that has the root.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; several times."),
]
Begin = Callable[[SparkSession], StreamingQuery]


def run(command: Callable[..., None], name: str) -> None:
    """Run a job's command and exit with its code."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name)(command)
    sys.exit(outcome(app, f"python -m streaming_jobs.jobs.{name}", name))


def outcome(app: typer.Typer, program: str, name: str, arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        typer.main.get_command(app).main(arguments, prog_name=program, standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return _told(name, error.format_message(), EXIT_USAGE)
    except ShardlogError as error:
        return _told(name, str(error), code_of(type(error)))
    except PySparkException as error:
        return _told(name, *_said_by_spark(error))
    return 0


def _said_by_spark(error: PySparkException) -> tuple[str, int]:
    """Return what to tell of a failure in Spark, and its exit code."""
    ours = error_within(str(error))
    if ours is not None:
        return ours[1], code_of(ours[0])
    return str(error) or type(error).__name__, EXIT_UNEXPECTED


def code_of(kind: type[ShardlogError]) -> int:
    """Return the exit code that tells of a kind of error."""
    return next((code for each, code in EXIT_CODES if issubclass(kind, each)), EXIT_UNEXPECTED)


def error_within(text: str) -> tuple[type[ShardlogError], str] | None:
    """Return the error of ours that Spark's text of a failure tells of, None if there is none."""
    for named in _TOLD.finditer(text):
        kind = getattr(storage_core, named[1], None)
        if isinstance(kind, type) and issubclass(kind, ShardlogError):
            return kind, named[2]
    return None


def conduct(name: str, master: str, settings: list[str] | None, begin: Begin) -> None:
    """Start Spark, begin a job's query, and wait for its end, told batch by batch.

    Raises:
        InvalidRequestError: A setting is none, or the job refuses what it was asked.
        PySparkException: The query failed.
    """
    spark = session(name, master, _pairs(settings))
    try:
        with _Stop() as stop:
            query = begin(spark)
            await_end(query, stop.wanted, lambda line: typer.echo(f"{name}: {line}", err=True))
    finally:
        spark.stop()


def session(name: str, master: str, settings: dict[str, str]) -> SparkSession:
    """Start Spark on this machine, or join the one that `spark-submit` has started.

    Its processes are in a group of their own: Ctrl-C is for the job, which lets the batch at hand
    be committed; Spark's Python processes would end with it in the middle of one.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf()
    given = {
        "spark.app.name": f"shardlog {name}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        **settings,
    }
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given = {"spark.master": master, "spark.log.level": "OFF", **given}
    for key, value in given.items():
        conf.set(key, value)
    gateway = _untyped.launch_gateway(conf, {"start_new_session": True})
    SparkContext(conf=conf, gateway=gateway).setLogLevel("OFF")
    return SparkSession.builder.getOrCreate()


def await_end(query: StreamingQuery, wanted: threading.Event, say: Callable[[str], None]) -> None:
    """Wait until a query ends by itself, or is asked to; tell of each batch that had rows.

    Raises:
        StreamingQueryException: It failed.
    """
    pace = Pace()
    at_hand: int | None = None
    while not query.awaitTermination(_LOOK_S):
        _tell(query, pace, say)
        if not wanted.is_set():
            continue
        if at_hand is None:
            at_hand = pace.ended
        if pace.ended > at_hand or not query.status["isTriggerActive"]:
            query.stop()
            break
    _tell(query, pace, say)
    say(pace.closing(is_asked=wanted.is_set()))


def _tell(query: StreamingQuery, pace: Pace, say: Callable[[str], None]) -> None:
    for progress in query.recentProgress:
        line = pace.line(pace_of(progress))
        if line is not None:
            say(line)


class _Stop:
    """Hears SIGINT and SIGTERM: the first asks for the end, the second is the end."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._usual: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._usual[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, usual in self._usual.items():
            signal.signal(number, usual)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.wanted.set()
        signal.signal(number, signal.SIG_DFL)


def _pairs(settings: list[str] | None) -> dict[str, str]:
    pairs = {}
    for one in settings or ():
        key, equals, value = one.partition("=")
        if not (key and equals):
            message = f"--conf {one}: a setting of Spark is KEY=VALUE"
            raise InvalidRequestError(message)
        pairs[key] = value
    return pairs


def _told(name: str, message: str, code: int) -> int:
    first, *_ = message.splitlines() or [""]
    typer.echo(f"{name}: {first}", err=True)
    return code
