"""What Spark's process says while it starts is held back, and told where it does not start."""

import os

import pytest
from pyspark.errors import PySparkRuntimeError

from streaming_jobs.jobs.spark_process import _Said, _why

OF_THE_START = """WARNING: Using incubator modules: jdk.incubator.vector
26/11/23 15:06:32 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
Setting Spark log level to "OFF".
"""
EXITED = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


@pytest.fixture
def process():
    """A process that says what is written to it, and somebody who listens."""

    class Process:
        def __init__(self, *, is_wanted=False):
            reading, self._writing = os.pipe()
            self.said = _Said(is_wanted=is_wanted)
            self.said.start(reading)

        def say(self, text):
            os.write(self._writing, text.encode())

        def end(self):
            os.close(self._writing)
            self.said.join(600)

    return Process


def test_words_of_the_start_are_held_back_and_later_ones_passed_on(process, capsys):
    spark = process()
    spark.say(OF_THE_START)
    spark.end()
    assert capsys.readouterr().err == ""
    spark = process()
    spark.said.release()
    spark.say("1,000 rows have expired\n")
    spark.end()
    assert capsys.readouterr().err == "1,000 rows have expired\n"


def test_words_of_the_start_are_told_where_sparks_own_log_is_wanted(process, capsys):
    spark = process(is_wanted=True)
    spark.say(OF_THE_START)
    spark.end()
    spark.said.release()
    assert capsys.readouterr().err == OF_THE_START


def test_traceback_of_a_process_whose_other_side_was_closed_is_left_out(process, capsys):
    stack = "Traceback (most recent call last):\n  File 'daemon.py', line 95, in worker\n"
    spark = process()
    spark.said.release()
    spark.say(f"{stack}BrokenPipeError: [Errno 32] Broken pipe\n{stack}ValueError: wrong\nmore\n")
    spark.end()
    assert capsys.readouterr().err == f"{stack}ValueError: wrong\nmore\n"


def test_nothing_is_passed_on_from_the_end_on(process, capsys):
    spark = process()
    spark.said.release()
    spark.said.end()
    spark.say("noise\n")
    spark.end()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn\n',
            "Master must be yarn",
        ),
        (
            "Invalid maximum heap size: -Xmxlots\nError: Could not create the machine.\n",
            "Invalid maximum heap size: -Xmxlots",
        ),
        ("JAVA_HOME is not set\n", "JAVA_HOME is not set"),
        (
            "spark-class: line 71: /no/bin/java: No such file or directory\n",
            "spark-class: line 71: /no/bin/java: No such file or directory",
        ),
        ("", "its process ended; --conf spark.log.level=ERROR may show why"),
    ],
)
def test_process_that_does_not_start_is_told_in_its_own_words(process, said, why):
    spark = process()
    spark.say(OF_THE_START + said)
    spark.end()
    assert _why(EXITED, spark.said) == why
