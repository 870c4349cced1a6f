"""What the jobs' commands share: arguments, a session, a line a batch, signals, errors in one line.

A command starts Spark, begins its query and waits for it. SIGINT, SIGTERM or SIGHUP end it once the
batch at hand is committed; a second one ends the process at once, and the checkpoint repeats the
batch. Errors are one line and an exit code, those of `shardlog`.
"""

import re
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, Literal, Self, get_args, get_origin

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors.cli.parsing.servers import ServerCommand
from storage_core import InvalidRequestError, ShardlogError
from streaming_jobs.common.job_options import typer
from streaming_jobs.jobs.progress import Progress
from streaming_jobs.jobs.spark_failures import (
    EXIT_USAGE,
    SPARK_ERRORS,
    code_of,
    failure_of,
    is_end_of_spark,
)
from streaming_jobs.jobs.spark_process import RunningSpark, start_spark

EXIT_INTERRUPTED: Final = 130
# Spark takes parts of a second too, which its types do not say.
_LOOK_S: Final[Any] = 0.25
_SPAN: Final = re.compile(
    r"(interval\s+)?(\+?\d+(\.\d+)?\s+(microsecond|millisecond|second|minute|hour|day|week)s?\s*)+",
    re.IGNORECASE,
)

# What a command calls otherwise.
_SKIPPING: Final = "failOnDataLoss=false"
_STARTING: Final = re.compile(r"startingOffsets=(\{.*?\}\})")

Root = Annotated[
    str | Path,
    typer.Argument(
        metavar="ROOT",
        help="Directory that holds the streams, or shardlog://HOST:PORT.",
        show_default=False,
    ),
]
StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", show_default=False)
]
Once = Annotated[
    bool, typer.Option("--once", help="End with what is there now; else go on with what comes.")
]


def _span(text: str) -> str:
    if not _SPAN.fullmatch(text.strip()):
        message = f"{text!r} is no duration like '30 seconds'."
        raise typer.BadParameter(message)
    return text


Trigger = Annotated[
    str,
    typer.Option(
        metavar="DURATION", help="How often to look for new rows, as '30 seconds'.", callback=_span
    ),
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
SkipLost = Annotated[
    bool,
    typer.Option(
        "--skip-lost",
        help="Go on where rows expired, or were lost, before the job read them; a warning counts "
        "them.",
    ),
]
Starting = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="OFFSETS",
        help="Where a new checkpoint begins: earliest, latest, or offsets by stream and shard, as "
        "the source's startingOffsets.",
    ),
]
CheckpointNeeded = Annotated[
    str | Path,
    typer.Option(metavar="DIR", help="Where the job keeps how far it came.", show_default=False),
]
Master = Annotated[
    str,
    typer.Option(
        metavar="URL", help="Spark's master; by a path, on the machine that has the root."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; several times."),
]
Mode = Annotated[
    Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"],
    typer.Option(help="What to do with values that cannot be read."),
]
Begin = Callable[[SparkSession], StreamingQuery]
Conduct = Callable[[str, str, list[str] | None, Begin], None]


def run(job: Callable[..., StreamingQuery], name: str) -> None:
    """Run a job as a command and exit with its code."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=ServerCommand)(command_of(job, name, conduct))
    sys.exit(outcome(app, f"python -m streaming_jobs.jobs.{name}", name))


def command_of(
    job: Callable[..., StreamingQuery], name: str, conducted: Conduct
) -> Callable[..., None]:
    """Return a job as a command, of which those parameters are arguments that have a help text."""

    def command(
        master: Master = "local[*]",
        conf: Settings = None,
        **arguments: Any,  # noqa: ANN401 - the job's
    ) -> None:
        conducted(name, master, conf, partial(job, **arguments))

    of_spark = list(signature(command).parameters.values())[:2]
    arguments = [
        parameter.replace(annotation=_as_text(parameter.annotation))
        for parameter in signature(job).parameters.values()
        if get_origin(parameter.annotation) is Annotated
    ]
    parameters = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in (*arguments, *of_spark)]
    command.__dict__["__signature__"] = Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = cleandoc(job.__doc__ or "").partition("\nRaises:")[0]
    return command


def _as_text(annotation: Any) -> Any:  # noqa: ANN401 - a type
    """Return the type of a parameter as the command line gives it: a text where it may be one."""
    kind, help_text = get_args(annotation)
    kinds = get_args(kind)
    if str in kinds:
        kind = str | None if type(None) in kinds else str
    return Annotated[kind, help_text]


def outcome(app: typer.Typer, program: str, name: str, arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        # What a command exits with is returned so.
        ended: object = typer.main.get_command(app).main(
            arguments, prog_name=program, standalone_mode=False
        )
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return _report_error(name, error.format_message(), EXIT_USAGE)
    except ShardlogError as error:
        return _report_error(name, str(error), code_of(type(error)))
    return ended if isinstance(ended, int) else 0


def conduct(name: str, master: str, settings: list[str] | None, begin: Begin) -> None:
    """Start Spark, begin a job's query, and wait for its end, with a line a batch.

    Raises:
        InvalidRequestError: A setting is none, Spark does not start with it, or the job refuses
            what it was asked.
        typer.Exit: The query failed; the error was printed.
    """
    pairs = _pairs(settings)
    # From here on: an interrupt in the middle of Spark's start would leave its process behind.
    with Stop() as stop:
        spark = start_spark(name, master, pairs)
        try:
            # NOTE: Spark's context (4.3) takes SIGINT for itself.
            stop.listen()
            await_end(begin, spark, stop.wanted, partial(say, name))
        except SPARK_ERRORS as error:
            # Here, since Spark is asked for the words as long as it runs.
            message, code = failure_of(error)
            raise typer.Exit(_report_error(name, by_options(message), code)) from error
        finally:
            spark.stop()


def by_options(message: str) -> str:
    """Return what the source says with the options of a command."""
    return _STARTING.sub(r"--from '\1'", message.replace(_SKIPPING, "--skip-lost"))


def await_end(
    begin: Begin, spark: RunningSpark, wanted: threading.Event, say: Callable[[str], None]
) -> None:
    """Begin a query and wait until it ends by itself, or is asked to; tell of each batch with rows.

    Raises:
        StreamingQueryException: It failed.
    """
    progress = Progress()
    try:
        if not wanted.is_set():
            _await_end(begin(spark.session), spark, wanted, (progress, say))
    except SPARK_ERRORS as error:
        # Whoever stops the job may have stopped Spark's process as well, as systemd does.
        if not (wanted.is_set() and is_end_of_spark(error)):
            raise
    say(progress.closing(is_asked=wanted.is_set()))


def _await_end(
    query: StreamingQuery,
    spark: RunningSpark,
    wanted: threading.Event,
    report: tuple[Progress, Callable[[str], None]],
) -> None:
    progress, say = report
    at_hand: int | None = None
    while not query.awaitTermination(_LOOK_S):
        _tell(query, progress, say)
        if not wanted.is_set():
            continue
        if at_hand is None:
            at_hand = progress.ended
        if progress.ended > at_hand or not query.status["isTriggerActive"]:
            # The next batch may have begun, and is broken off in many words.
            spark.hush()
            query.stop()
            break
    _tell(query, progress, say)


def _tell(query: StreamingQuery, progress: Progress, say: Callable[[str], None]) -> None:
    for batch in query.recentProgress:
        line = progress.line(batch)
        if line is not None:
            say(line)


class Stop:
    """Hears SIGINT, SIGTERM and SIGHUP: the first asks for the end, the second is the end."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._usual: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Hear signals from here on, also where somebody has put himself in between."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # What is not to be heard is left so, as SIGHUP under nohup.
            if signal.getsignal(number) != signal.SIG_IGN:
                heard = signal.SIG_DFL if self.wanted.is_set() else self._hear
                self._usual.setdefault(number, signal.signal(number, heard))

    def __exit__(self, *_error: object) -> None:
        for number, usual in self._usual.items():
            signal.signal(number, usual)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.wanted.set()
        for number in self._usual:
            signal.signal(number, signal.SIG_DFL)


def _pairs(settings: list[str] | None) -> dict[str, str]:
    pairs = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not (key and equals):
            message = f"--conf {setting}: a setting of Spark is KEY=VALUE"
            raise InvalidRequestError(message)
        pairs[key] = value
    return pairs


def say(name: str, line: str) -> None:
    """Print a line of a command on standard error."""
    typer.echo(f"{name}: {line}", err=True)


def _report_error(name: str, message: str, code: int) -> int:
    first, *_ = message.splitlines() or [""]
    say(name, first)
    return code
