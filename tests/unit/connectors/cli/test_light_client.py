"""What an installation of the client alone can do: read from a server, in Python and by command."""

import subprocess
import sys

import pytest

from storage_core import Stream, StreamOptions
from tests.log.served import served

# Neither of these is there.
OF_STORE_AND_KAFKA = (
    *("rocksdict", "confluent_kafka", "duckdb", "fsspec", "pytz", "structlog"),
    *("pyspark", "pandas"),
)
OF_COMMAND = ("typer", "pydantic", "rich", "fastavro", "xxhash")
WITHOUT = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Lacking())
"""
READS = """
from storage_core import StreamReader, list_streams, root_id
address = sys.argv[1]
assert list_streams(address) == ["trips"] and root_id(address)
with StreamReader.open(address, "trips") as reader:
    assert reader.wait(0, 0, timeout=60)
    rows = [reader.read().num_rows, sum(batch.num_rows for batch in reader.scan())]
    reader.for_each(fn=lambda record: rows.append(record.primary))
    print(rows, reader.latest(), reader.stats().records, reader.committed(), reader.refresh())
    print(list(reader.shard(0).schemas()), reader.parts(), reader.missing(0, 0, 1))
"""
COMMAND = "from connectors.cli.entry import run\nrun()"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, "trips", StreamOptions(shards=1)) as stream:
        stream.append(1000, 7, b"begin")
        stream.append(2000, 7, b"end")
    with served(root) as address:
        yield address


def ran_without(names, program, *arguments):
    command = [sys.executable, "-c", WITHOUT.format(names=names) + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def test_client_reads_with_pyarrow_and_numpy_alone(address):
    ran = ran_without((*OF_STORE_AND_KAFKA, *OF_COMMAND), READS, address)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("[2, 2, 1000, 2000] {7: Record(")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("read --server {address} trips --output jsonl", "2000"),
        ("latest --server {address} trips --id 7 --output csv", "2000"),
        ("tail --server {address} trips", "2000"),
        ("status --server {address} --json", "2000"),
        ("streams --server {address}", "trips"),
    ],
)
def test_command_reads_from_a_server_with_the_extra_cli_alone(address, words, printed):
    ran = ran_without(OF_STORE_AND_KAFKA, COMMAND, *words.format(address=address).split())
    assert (ran.returncode, ran.stderr) == (0, "")
    assert printed in ran.stdout


def test_path_is_told_what_it_needs(tmp_path):
    ran = ran_without(OF_STORE_AND_KAFKA, COMMAND, "read", str(tmp_path), "trips")
    assert ran.returncode == 2
    assert ran.stderr.endswith("rocksdict is missing: pip install 'shardlog[store]'\n")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("statement", "package"),
    [
        ("from storage_core.sql import connect", "'shardlog[sql]'"),
        ("import storage_core.sql; storage_core.sql.query_batches", "'shardlog[sql]'"),
        ("from storage_core.export import export_stream", "'shardlog[store]'"),
        ("from connectors.kafka import Producer", "'shardlog[kafka]'"),
        ("from connectors.registry import read_schema_files", "'shardlog[kafka]'"),
    ],
)
def test_name_that_needs_an_extra_is_told_with_it(statement, package):
    ran = ran_without((*OF_STORE_AND_KAFKA, *OF_COMMAND), statement)
    assert ran.returncode == 1
    assert f"is missing: pip install {package}" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["roll_up", "land_topic", "drain_late"])
def test_job_that_is_called_without_the_extra_cli_is_told_with_it(name):
    ran = ran_without(
        ("typer", "pydantic", "rich"), f"from streaming_jobs.jobs.{name} import {name}"
    )
    assert ran.returncode == 1
    said = "ModuleNotFoundError: a job of Spark: typer is missing: pip install 'shardlog[cli]'"
    assert ran.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("read /nowhere trips", "store"),
        ("worker --config shardlog.toml", "kafka"),
        ("sql /nowhere query", "sql"),
        ("read --server 127.0.0.1:1 trips", "cli"),
    ],
)
def test_client_alone_is_told_at_once_all_that_a_command_needs(words, extra):
    ran = ran_without((*OF_STORE_AND_KAFKA, *OF_COMMAND), COMMAND, *words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"shardlog: typer is missing: pip install 'shardlog[{extra}]'\n"
