"""One Spark session for all tests of a group (tests/groups.py), started when first asked.

    def test_rows_are_read(lab): …       `lab` is a stream of the test's own beside the session
    def test_of_the_sink(spark): …       the session alone

All tests here carry the mark `spark`; `-m 'not spark'` leaves them out.
"""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support.lab import SparkLab
from tests.spark.support.session import make_session

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "spark: needs a JVM, 17 or later")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder as needing Spark."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.fail("Spark needs a JVM, 17 or later: install one, or set JAVA_HOME")
    with warnings.catch_warnings():
        # PySpark leaves sockets to the garbage collector, and warns of what it will do one day.
        warnings.simplefilter("ignore")
        session = make_session(tmp_path_factory.mktemp("spark"))
        yield session
        session.stop()


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLab]:
    """A root without a stream, and a checkpoint, of the test's own."""
    lab = SparkLab(spark, tmp_path)
    yield lab
    lab.clean_up()


@pytest.fixture
def full(lab: SparkLab) -> SparkLab:
    """A lab with ten rows, even numbers in shard 0 of two."""
    lab.log.create(shards=2)
    lab.log.append(10)
    return lab
