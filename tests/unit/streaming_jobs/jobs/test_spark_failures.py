"""A failure in Spark, told in many lines, comes to one, and to the exit code of what it is."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from storage_core import ForeignDataError, InvalidRequestError, LostRangeError
from streaming_jobs.jobs import spark_failures
from streaming_jobs.jobs.spark_failures import error_within, failure_of, is_end_of_spark, line_of

OF_A_QUERY = """[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: It ended.
pyspark.errors.exceptions.base.PySparkRuntimeError: something
storage_core.errors.LostRangeError: data were lost (stream 'events', shard 2, range [5, 9))
"""
OF_THE_SOURCE = (
    "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: "
    "storage_core.errors.InvalidRequestError: option columns: no such SQLSTATE: 38000"
)
IN_A_BATCH = """[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Return Message: \
Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{ended}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: job [id = 1-2, runId = 3-4]
"""
OF_A_TASK = """py4j.protocol.Py4JJavaError: An error occurred while calling o151.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/x. \
SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(QueryExecutionErrors.scala:785)
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: {cause}
\tat org.apache.hadoop.fs.RawLocalFileSystem.write(RawLocalFileSystem.java:238)
Caused by: java.io.IOException: {cause}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 40 more
"""
OF_THE_START = """An error occurred while calling o53.start.
: org.apache.hadoop.fs.FileAlreadyExistsException: Destination exists and is not a directory: /x
\tat org.apache.hadoop.fs.FileSystem.mkdirs(FileSystem.java:1)
"""


def test_error_of_ours_is_found_in_what_spark_says():
    lost = "data were lost (stream 'events', shard 2, range [5, 9))"
    assert error_within(OF_A_QUERY) == (LostRangeError, lost)
    assert error_within(OF_THE_SOURCE) == (InvalidRequestError, "option columns: no such")
    assert error_within("ValueError: no") is None
    assert spark_failures.code_of(LostRangeError) == 5


def test_error_of_ours_counts_that_was_raised_last():
    ended = (
        "storage_core.errors.InvalidRequestError: there is no such stream\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "storage_core.errors.ForeignDataError: host one has no stream 'events'"
    )
    error = error_within(IN_A_BATCH.format(ended=ended))
    assert error == (ForeignDataError, "host one has no stream 'events'")


def test_error_of_a_job_written_in_python_is_told_without_its_stack():
    said = line_of([IN_A_BATCH.format(ended="ValueError: it is wrong")])
    assert said == "ValueError: it is wrong"


def test_failure_of_a_task_is_told_with_its_innermost_cause():
    said = line_of([IN_A_BATCH.format(ended=OF_A_TASK.format(cause="No space left on device"))])
    assert said == (
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/x: No space left on device"
    )


@pytest.mark.parametrize(
    ("cause", "code"),
    [("No space left on device", 3), ("Permission denied", 2), ("something else", 1)],
)
def test_disk_that_refuses_is_something_to_start_again_after(cause, code):
    assert spark_failures._code_of_line(line_of([OF_A_TASK.format(cause=cause)])) == code


def test_failure_of_java_is_told_without_its_kind_and_stack():
    assert line_of([OF_THE_START]) == "Destination exists and is not a directory: /x"


def test_causes_that_spark_has_translated_follow_the_first_line():
    said = line_of(["Error while instantiating 'State':", "It should be an 'int'. SQLSTATE: 22022"])
    assert said == "Error while instantiating 'State': It should be an 'int'."


def test_first_line_counts_where_there_is_nothing_else():
    assert line_of(["[NO_SUCH] There is none.\nIt is so."]) == "[NO_SUCH] There is none."
    assert line_of([""]) == ""


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), ConnectionRefusedError(111, "refused")]
)
def test_end_of_sparks_process_is_told_as_such(error):
    assert failure_of(error) == (
        "Spark's process has ended in the middle; start the job again, it goes on",
        3,
    )


def test_end_of_sparks_process_is_told_from_a_failure():
    assert is_end_of_spark(Py4JNetworkError("gone"))
    shut_down = "Job 5 cancelled because SparkContext was shut down"
    assert is_end_of_spark(PySparkRuntimeError(message=shut_down))
    assert not is_end_of_spark(PySparkRuntimeError(message=OF_A_QUERY))
    assert not is_end_of_spark(PySparkRuntimeError(message="No space left on device"))


def test_error_without_a_text_is_told_by_its_kind():
    assert failure_of(PySparkRuntimeError(message="")) == ("PySparkRuntimeError", 1)
