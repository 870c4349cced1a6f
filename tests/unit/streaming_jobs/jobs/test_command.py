"""The jobs' commands tell an error in one line, with the exit codes of `shardlog`."""

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from pyspark.errors import PySparkRuntimeError

from connectors.cli import exit_codes
from connectors.cli.parsing.servers import ServerCommand
from storage_core import ForeignDataError, InvalidRequestError, UnavailableError
from streaming_jobs.jobs import command, spark_failures


@pytest.mark.parametrize(("kind", "code"), spark_failures.EXIT_CODES)
def test_exit_codes_are_those_of_shardlog(kind, code):
    assert exit_codes.exit_code_for(kind("it")) == code == spark_failures.code_of(kind)


def test_other_codes_are_those_of_shardlog():
    own = (spark_failures.EXIT_UNEXPECTED, spark_failures.EXIT_USAGE, command.EXIT_INTERRUPTED)
    assert own == (
        exit_codes.EXIT_UNEXPECTED,
        exit_codes.EXIT_USAGE,
        exit_codes.EXIT_INTERRUPTED,
    )


def job(error):
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.command("job")
    def run(count: int = 0):
        if error is not None and not count:
            raise error

    return app


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (InvalidRequestError("it is wrong"), 2),
        (UnavailableError("it is wrong"), 3),
        (ForeignDataError("it is wrong"), 4),
    ],
)
def test_error_is_one_line(error, code, capsys):
    assert command.outcome(job(error), "job", "job", []) == code
    assert capsys.readouterr().err == ("" if error is None else "job: it is wrong\n")


def test_wrong_argument_is_one_line(capsys):
    assert command.outcome(job(None), "job", "job", ["--count", "many"]) == 2
    output = capsys.readouterr().err
    assert output.startswith("job: Invalid value for '--count'")
    assert output.count("\n") == 1


def test_setting_that_is_none_is_refused():
    with pytest.raises(
        InvalidRequestError, match=r"--conf spark\.x: a setting of Spark is KEY=VALUE"
    ):
        command._pairs(["spark.x"])
    assert command._pairs(["spark.x=a=b"]) == {"spark.x": "a=b"}


def test_code_that_a_command_exits_with_is_its_own(capsys):
    assert command.outcome(job(typer.Exit(3)), "job", "job", []) == 3
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("said", "by_options"),
    [
        ("read on with failOnDataLoss=false", "read on with --skip-lost"),
        (
            'begin with startingOffsets={"a b": {"0": 7, "3": -2}}; shards [1] are not here',
            """begin with --from '{"a b": {"0": 7, "3": -2}}'; shards [1] are not here""",
        ),
        ("option startingOffsets: it is wrong", "option startingOffsets: it is wrong"),
    ],
)
def test_options_of_the_source_are_told_as_those_of_the_command(said, by_options):
    assert command.by_options(said) == by_options


@pytest.mark.parametrize("span", ["often", "", "5", "-5 seconds", "5 s", "seconds"])
def test_trigger_that_is_no_span_of_time_is_refused(span):
    with pytest.raises(typer.BadParameter, match="is no duration like '30 seconds'"):
        command._span(span)


@pytest.mark.parametrize("span", ["30 seconds", "1 minute", "1 minute 30 seconds", "0.5 seconds"])
def test_trigger_that_is_a_span_of_time_is_taken(span):
    assert command._span(span) == span


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_signal_asks_for_the_end_and_any_second_one_is_the_end(number):
    with command.Stop() as stop:
        os.kill(os.getpid(), number)
        assert stop.wanted.is_set()
        for later in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            assert signal.getsignal(later) == signal.SIG_DFL


def test_signal_that_somebody_took_is_heard_again():
    # Spark takes it too, where this process has one.
    before = signal.getsignal(signal.SIGINT)
    with command.Stop() as stop:
        usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        assert usual == stop._hear
        stop.listen()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted.is_set()
        stop.listen()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == before


def test_signal_that_is_not_to_be_heard_is_not():
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with command.Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wanted.is_set()
    finally:
        signal.signal(signal.SIGHUP, usual)


class Query:
    """A query whose batches take no time; it ends by itself, with an error, or once stopped."""

    def __init__(self, error=None, *, ends=False):
        self.error = error
        self.ends = ends
        self.stopped = False
        self.status = {"isTriggerActive": False}
        self.recentProgress = ()

    def awaitTermination(self, _seconds):  # noqa: N802 - Spark's
        if self.error is not None:
            raise self.error
        return self.ends

    def stop(self):
        self.stopped = True


class Spark:
    session = None
    is_hushed = False

    def hush(self):
        self.is_hushed = True


def awaited(query, wanted=False):
    wanted_event = threading.Event()
    lines: list[str] = []
    spark: Any = Spark()

    def begin(_session):
        wanted_event.set()
        return query

    if wanted:
        wanted_event.set()
    command.await_end(begin, spark, wanted_event, lines.append)
    return spark, lines


def test_query_that_is_to_end_is_stopped_without_sparks_words():
    query = Query()
    spark, lines = awaited(query)
    assert query.stopped
    assert spark.is_hushed
    assert lines == ["done, asked to stop: no new rows"]


def test_query_that_ends_by_itself_is_told_as_such():
    query: Any = Query(ends=True)
    batch = SimpleNamespace(batchId=0, numInputRows=1500, batchDuration=500)
    query.recentProgress = (batch, batch, SimpleNamespace(**{**vars(batch), "numInputRows": 0}))
    spark: Any = Spark()
    lines: list[str] = []
    command.await_end(lambda _session: query, spark, threading.Event(), lines.append)
    assert not query.stopped
    assert lines == [
        "batch 0: 1,500 rows in 0.5 s, 3,000 a second",
        "done, all that was there: 1,500 rows in 1 batch",
    ]


def test_job_that_was_asked_to_stop_before_its_query_begins_none():
    query = Query()
    _, lines = awaited(query, wanted=True)
    assert not query.stopped
    assert lines == ["done, asked to stop: no new rows"]


def test_end_of_spark_is_no_failure_of_a_job_that_was_asked_to_stop():
    assert awaited(Query(ConnectionRefusedError("gone")))[1] == ["done, asked to stop: no new rows"]
    failure = PySparkRuntimeError(message="No space left on device")
    with pytest.raises(PySparkRuntimeError):
        awaited(Query(failure))


def asked_of(arguments):
    """Return the root and the stream that a job's command is asked for, and what it says."""
    calls: list[Any] = []

    def job(_spark, root: command.Root, stream: command.StreamName, into: command.StreamName):
        calls.append((root, stream, into))

    def conduct(_name, _master, _settings, begin):
        begin(None)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command("job", cls=ServerCommand)(command.command_of(job, "job", conduct))
    return command.outcome(app, "job", "job", arguments), calls


@pytest.mark.parametrize(
    ("arguments", "root"),
    [
        (["data"], "data"),
        (["shardlog://a:8085,b"], "shardlog://a:8085,b"),
        (["--server", "a:8085,b"], "shardlog://a:8085,b"),
        (["--server=shardlogs://a"], "shardlogs://a"),
    ],
)
def test_servers_stand_in_the_place_of_the_root(arguments, root):
    assert asked_of([*arguments, "orders", "lake"]) == (0, [(root, "orders", "lake")])


def test_root_beside_a_server_is_one_too_many(capsys):
    assert asked_of(["data", "orders", "lake", "--server", "a"]) == (2, [])
    assert "--server is in the place of ROOT: leave ROOT out" in capsys.readouterr().err
