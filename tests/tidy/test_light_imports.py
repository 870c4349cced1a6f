"""What reads from a server, and Spark's side, load nothing that an extra of the package brings."""

import json
import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT

# What an installation of the client alone does not have.
OF_EXTRAS = {
    *("confluent_kafka", "duckdb", "fsspec", "pydantic", "rocksdict", "structlog"),
    *("fastavro", "xxhash"),
}
# Typed columns and what a sink compares are made by these, which `shardlog[spark]` brings.
OF_SPARK = {"fastavro", "xxhash"}
PROGRAM = """
import json, sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
print(json.dumps(list(sys.modules)))
"""


def loaded(*modules: str) -> set[str]:
    """Return the top-level modules a fresh interpreter holds once these are imported."""
    command = [sys.executable, "-c", PROGRAM, *modules]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(ran.stdout)}


@pytest.mark.parametrize("module", ["storage_core.reader", "storage_core.stream"])
def test_reader_loads_pyarrow_and_numpy_alone(module) -> None:
    assert loaded(module) & (OF_EXTRAS | {"pyarrow", "numpy"}) == {"pyarrow", "numpy"}


def test_source_of_spark_loads_nothing_of_an_extra() -> None:
    assert loaded("pyspark_shardlog", "streaming_jobs.data_source") & OF_EXTRAS == set()


def test_sink_of_spark_loads_nothing_that_the_extra_of_spark_does_not_bring() -> None:
    assert loaded("streaming_jobs.sink.writer") & (OF_EXTRAS - OF_SPARK) == set()
