"""What differs between versions of PySpark, tried on each: source, sink, typed columns, a job.

`make spark-versions` runs all of `tests/spark` on each.
"""

import sys

import pytest

from tests.versions.pysparks import NEWEST, FetchError, pyspark_of, run_tests

SMOKE = (
    "tests/spark/source/test_queries.py::test_query_takes_as_much_as_it_may_and_reports_it",
    "tests/spark/source/test_queries.py::test_available_now_ends_in_batches_of_the_limit_or_after_one",
    "tests/spark/source/test_queries.py::test_restarted_query_goes_on_where_it_stopped",
    "tests/spark/sink/test_fields.py::test_stream_lands_once_by_fields_over_restarts_and_replays",
    "tests/spark/parts/test_parts.py::test_floats_of_parts_are_read_or_the_setting_is_named",
    "tests/spark/jobs/test_roll_up.py::test_rows_without_the_value_are_told_of",
)


# However long a download takes, it is no fault of the code.
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", NEWEST)
def test_each_version_reads_writes_and_rolls_up(version, capfd):
    def tell(line):
        with capfd.disabled():
            sys.stderr.write(f"{line}\n")

    try:
        place = pyspark_of(version, tell)
    except FetchError as error:
        pytest.skip(str(error))
    assert run_tests(place, SMOKE) == 0, f"PySpark {version} fails"
