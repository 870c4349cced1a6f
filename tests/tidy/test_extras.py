"""What an extra of the package promises, it brings; who lacks one is told which.

What reads from a server, and Spark's side of it, load nothing that an extra brings.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires

import pytest

from storage_core.platform.extras import EXTRA_OF
from tests.tidy.tree import PACKAGES, ROOT, product_files

OF_SQL = re.compile(r'^([\w-]+).*; extra == "sql"$')
OURS = re.compile(r"^shardlog\[([\w,]+)\]$")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def brought(*extras: str) -> set[str]:
    """Return the distributions that an installation with these extras has."""
    names = {name_of(text) for text in PROJECT["dependencies"]}
    for extra in extras:
        for text in EXTRAS[extra]:
            ours = OURS.match(text)
            names |= brought(*ours[1].split(",")) if ours else {name_of(text)}
    return names


def name_of(text: str) -> str:
    """Return the distribution that a requirement names."""
    return re.split(r"[^\w-]", text)[0]


def test_client_brings_pyarrow_and_numpy_alone() -> None:
    assert brought() == {"numpy", "pyarrow"}


def test_spark_extra_brings_what_frames_of_spark_need() -> None:
    needed = {match[1] for text in requires("pyspark") or () if (match := OF_SQL.match(text))}
    assert needed
    assert needed <= brought("spark")


def test_sql_extra_brings_duckdb_and_what_it_reads_files_by() -> None:
    assert {"duckdb", "fsspec", "rocksdict"} <= brought("sql")


def test_extra_of_all_brings_what_every_other_does() -> None:
    assert brought("all") == brought(*EXTRAS)


def test_each_library_of_an_extra_is_told_with_one_that_brings_it() -> None:
    of_extras = {name.replace("-", "_") for name in brought(*EXTRAS) - brought()}
    assert {*EXTRA_OF} == of_extras
    for library, extra in EXTRA_OF.items():
        assert library in {name.replace("-", "_") for name in brought(extra)}


def test_each_library_that_is_imported_is_brought_by_some_extra() -> None:
    needed: dict[str, str] = {}
    for path, source in product_files().items():
        for name in imported_when_run(ast.parse(source)):
            needed.setdefault(name.partition(".")[0], path)
    # PySpark brings py4j.
    known = {*sys.stdlib_module_names, *PACKAGES, "pyspark_shardlog", "py4j"}
    brought_by_some = {name.replace("-", "_") for name in brought(*EXTRAS)}
    assert {
        name: path for name, path in needed.items() if name not in known | brought_by_some
    } == {}


def imported_when_run(tree: ast.AST) -> Iterator[str]:
    """Return what code imports; what only a type checker sees is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from imported_when_run(ast.Module([other], []))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
        else:
            yield from imported_when_run(node)


# What an installation of the client alone does not have.
NOT_OF_CLIENT = {
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


@pytest.mark.parametrize("module", ["storage_core.remote_reader", "storage_core.stream"])
def test_reader_loads_pyarrow_and_numpy_alone(module) -> None:
    assert loaded(module) & (NOT_OF_CLIENT | {"pyarrow", "numpy"}) == {"pyarrow", "numpy"}


def test_source_of_spark_loads_nothing_of_an_extra() -> None:
    assert loaded("pyspark_shardlog", "streaming_jobs.data_source") & NOT_OF_CLIENT == set()


def test_sink_of_spark_loads_nothing_that_the_extra_of_spark_does_not_bring() -> None:
    assert loaded("streaming_jobs.sink.writer") & (NOT_OF_CLIENT - OF_SPARK) == set()


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
for call in sys.argv[2:]:
    try:
        exec(call)
        print("done")
    except Exception as error:
        print(type(error).__name__, error)
"""
CALLS_BY_PATH = (
    *(
        "list_streams(root)",
        "root_id(root)",
        "dropped_streams(root, 's')",
        "describe_stream(root, 's')",
    ),
    *("Stream.create(root, 's')", "Stream.open(root, 's')", "StreamReader.open(root, 's')"),
    *("shard_owners(root, 's')", "archived_shards(root, 's')"),
)


def said_without(library: str, *calls: str) -> list[str]:
    """Return what each call says where a library is not installed."""
    command = [sys.executable, "-c", WITHOUT, library, *calls]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return ran.stdout.splitlines()


def test_call_by_path_without_the_store_says_what_brings_it_and_makes_nothing(tmp_path) -> None:
    root = tmp_path / "root"
    beginning = f"from storage_core import *; from pathlib import Path; root = Path({str(root)!r})"
    _, *said = said_without("rocksdict", beginning, *CALLS_BY_PATH)
    missing = "a stream by path is a RocksDB store: rocksdict is missing"
    line = f"InvalidRequestError {missing}: pip install 'shardlog[store]'"
    assert said == [line] * len(CALLS_BY_PATH)
    assert not root.exists()


def test_source_without_spark_says_what_brings_it() -> None:
    imports = ("import pyspark_shardlog", "import streaming_jobs.data_source")
    said = "ModuleNotFoundError pyspark is missing: pip install 'shardlog[spark]'"
    assert said_without("pyspark", *imports) == [said] * len(imports)


def test_sink_without_what_it_encodes_by_says_what_brings_it() -> None:
    made = "from streaming_jobs.data_source import ShardlogSource as Source; Source({})"
    calls = (f"{made}.writer(None, False)", f"{made}.streamWriter(None, False)")
    said = "ModuleNotFoundError fastavro is missing: pip install 'shardlog[avro]'"
    assert said_without("fastavro", *calls) == [said] * len(calls)
