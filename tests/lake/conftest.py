"""Stores for tables: a directory, and a bucket of an S3 server; and Spark with Delta's jars."""

import sys
from collections.abc import Callable, Iterator

import pytest

from tests.lake.readers.delta_spark import DeltaSpark
from tests.lake.support.fixtures import bucket_store, few_rounds, s3_server, store
from tests.versions.pysparks import FetchError

__all__ = ["bucket_store", "few_rounds", "s3_server", "store"]


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """What shows a line at once, whatever pytest keeps: a download takes minutes."""

    def show(line: str) -> None:
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"{line}\n")

    return show


@pytest.fixture(scope="session")
def delta_spark(
    tmp_path_factory: pytest.TempPathFactory, tell: Callable[[str], None]
) -> Iterator[DeltaSpark]:
    """Spark with Delta, started when first asked."""
    try:
        program = DeltaSpark(tmp_path_factory.mktemp("delta-spark"), tell)
    except FetchError as error:
        pytest.skip(str(error))
    with program:
        yield program
