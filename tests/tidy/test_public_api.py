"""The public surface of storage_core: one list, guarded here, and nothing drags in Kafka or Spark.

Tests and programs outside this repository import these names. Adding one is a decision; removing
or renaming one breaks them.
"""

import importlib
import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.tidy.tree import PACKAGES, ROOT

PUBLIC = {
    "AppendReport",
    "ArchivedShard",
    "Clock",
    "Contents",
    "DirectoryLock",
    "Drop",
    "Environment",
    "ExpiryReport",
    "HEADERS_TYPE",
    "INT64_MAX",
    "INT64_MIN",
    "IndexOptions",
    "IndexWorker",
    "KEY_BYTES_MAX",
    "RETRY_SHARDS_FROM",
    "Part",
    "PartEntry",
    "PartBuilder",
    "Position",
    "Problem",
    "ReadRequest",
    "Record",
    "SchemaEntry",
    "ServerOptions",
    "ShardExpiry",
    "ShardOwner",
    "ShardProgress",
    "ShardPosition",
    "ShardReader",
    "ShardTiering",
    "StagedRows",
    "State",
    "StagingArea",
    "StagingWriter",
    "Stream",
    "StreamDescription",
    "StreamOptions",
    "StreamOrigin",
    "StreamReader",
    "StreamStats",
    "SystemClock",
    "TieringReport",
    "TieringStep",
    "Transaction",
    "TransactionId",
    "UNITS_PER_SECOND",
    "Unit",
    "VerifyReport",
    "archived_lineages",
    "archived_shard_directory",
    "archived_shards",
    "remove_archived_shards",
    "drop_stream",
    "dropped_streams",
    "describe_stream",
    "files_needed",
    "is_stream_name",
    "shard_progress",
    "share_with_root",
    "list_streams",
    "root_id",
    "shard_owners",
}
ERRORS = {
    "BrokerUnavailableError",
    "ClientFailedError",
    "ClosedError",
    "CorruptionError",
    "ForeignDataError",
    "InvalidRequestError",
    "LostRangeError",
    "ShardLockedError",
    "ShardPoisonedError",
    "ShardlogError",
    "UnavailableError",
    "UnsupportedFormatError",
}
FOREIGN = {"confluent_kafka", "fastavro", "hypothesis", "pyspark", "pytest"}


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules a fresh interpreter holds after a statement."""
    program = f"import json, sys\n{statement}\nprint(json.dumps(list(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {name.split(".")[0] for name in json.loads(result.stdout)}


@pytest.fixture(scope="module")
def log() -> Any:
    """The log; imported here, so that tests of its imports run also while they go in a circle."""
    return importlib.import_module("storage_core")


def test_public_names_are_the_guarded_ones(log: Any) -> None:
    exported = log.__all__
    assert len(exported) == len(set(exported))
    assert set(exported) == PUBLIC | ERRORS


def test_every_public_name_is_there(log: Any) -> None:
    missing = [name for name in sorted(PUBLIC | ERRORS) if not hasattr(log, name)]
    assert missing == []


def test_every_error_is_public(log: Any) -> None:
    errors = importlib.import_module(f"{log.__name__}.errors")
    defined = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.ShardlogError)
    }
    assert defined == ERRORS


def test_importing_the_log_loads_neither_kafka_nor_spark_nor_test_tools() -> None:
    assert (
        modules_after("from storage_core import *; import storage_core.testing") & FOREIGN == set()
    )
    assert modules_after("import pytest") & FOREIGN == {"pytest"}


def test_every_package_ships_its_types() -> None:
    shipped = [name for name in PACKAGES if (ROOT / name / "__init__.py").is_file()]
    assert "storage_core" in shipped
    assert [name for name in shipped if not (ROOT / name / "py.typed").is_file()] == []


def calls(log: Any) -> list[str]:
    """Return how each public name and each public member of it is called, without types."""
    lines = []
    for name in sorted(PUBLIC):
        thing = getattr(log, name)
        lines += called(name, thing)
        members = sorted(set(dir(thing)) - set(dir(object))) if isinstance(thing, type) else []
        for member in (one for one in members if not one.startswith("_")):
            lines += called(f"{name}.{member}", getattr(thing, member))
    return lines


def called(name: str, thing: Any) -> list[str]:
    """Return the line of one thing, none if it is not called."""
    if not isinstance(thing, type) and not inspect.isroutine(thing):
        return []
    nothing = inspect.Parameter.empty
    plain = [
        parameter.replace(
            annotation=nothing, default=parameter.default if parameter.default is nothing else ...
        )
        for parameter in inspect.signature(thing).parameters.values()
    ]
    return [f"{name}{inspect.Signature(plain)}".replace("Ellipsis", "...")]


def test_public_names_are_called_as_they_were(log: Any) -> None:
    # Adding what has a default is a decision, too: then the file changes with it.
    stored = (ROOT / "tests/tidy/public_calls.txt").read_text(encoding="utf-8").splitlines()
    assert calls(log) == stored
