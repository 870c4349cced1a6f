"""The jobs' commands tell an error in one line, with the exit codes of `shardlog`."""

import pytest
import typer

from connectors.cli import exit_codes
from storage_core import ForeignDataError, InvalidRequestError, LostRangeError, UnavailableError
from streaming_jobs.jobs import command

OF_SPARK = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.
pyspark.errors.exceptions.base.PySparkRuntimeError: something
storage_core.errors.LostRangeError: data were lost (stream 'events', shard 2, range [5, 9))
"""


@pytest.mark.parametrize(("kind", "code"), command.EXIT_CODES)
def test_exit_codes_are_those_of_shardlog(kind, code):
    assert exit_codes.exit_code_for(kind("it")) == code == command.code_of(kind)


def test_other_codes_are_those_of_shardlog():
    own = (command.EXIT_UNEXPECTED, command.EXIT_USAGE, command.EXIT_INTERRUPTED)
    assert own == (
        exit_codes.EXIT_UNEXPECTED,
        exit_codes.EXIT_USAGE,
        exit_codes.EXIT_INTERRUPTED,
    )


def test_error_of_ours_is_found_in_what_spark_says():
    assert command.error_within(OF_SPARK) == (
        LostRangeError,
        "data were lost (stream 'events', shard 2, range [5, 9))",
    )
    assert command.error_within("ValueError: no") is None
    assert command.code_of(LostRangeError) == 5


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
    told = capsys.readouterr().err
    assert told.startswith("job: Invalid value for '--count'")
    assert told.count("\n") == 1


def test_setting_that_is_none_is_refused():
    with pytest.raises(
        InvalidRequestError, match=r"--conf spark\.x: a setting of Spark is KEY=VALUE"
    ):
        command._pairs(["spark.x"])
    assert command._pairs(["spark.x=a=b"]) == {"spark.x": "a=b"}
