"""Who may import whom: the layers hold, and each foreign library has its one door.

The log (`storage_core/*.py`) knows neither Kafka nor Spark, nor what stands above it in its own
package. connectors and streaming_jobs never import each other, and of the log only its public
names. Every import is absolute.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy.tree import product_files

# Where a library may be imported; a folder ends in a slash.
DOORS = {
    "confluent_kafka": ("connectors/kafka_client/", "connectors/registry.py"),
    "fastavro": ("storage_core/fields/",),
    "pyspark": ("streaming_jobs/", "pyspark_shardlog.py"),
    "rocksdict": ("storage_core/rocks.py",),
}
# All that the log stands on beside the standard library.
GROUND = {"fastavro", "numpy", "pyarrow", "pyroaring", "rocksdict", "storage_core", "xxhash"}
ABOVE_THE_LOG = ("storage_core.fields", "storage_core.parts", "storage_core.query")
SIBLINGS = {"connectors": "streaming_jobs", "streaming_jobs": "connectors"}
OPEN_TO_SIBLINGS = ("storage_core", "storage_core.testing", "storage_core.fields")


def imported(source: str) -> Iterator[str]:
    """Yield the modules a source imports; `from a import b` yields both a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def modules_reached_into(source: str) -> Iterator[str]:
    """Yield the modules whose names a source takes, without the names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def breaches(path: str, source: str) -> list[str]:
    """Return what a file imports against the rules."""
    package = PurePosixPath(path).parts[0]
    is_log = package == "storage_core" and path.count("/") == 1
    complaints = []
    for module in imported(source):
        library = module.split(".")[0]
        if module.startswith("."):
            complaints.append(f"{path}: relative import {module}")
        elif library in DOORS and not path.startswith(DOORS[library]):
            complaints.append(f"{path}: {library} belongs to {', '.join(DOORS[library])}")
        elif package == "storage_core" and library not in GROUND | sys.stdlib_module_names:
            complaints.append(f"{path}: storage_core does not stand on {library}")
        elif library == SIBLINGS.get(package):
            complaints.append(f"{path}: {package} and {library} do not know each other")
        elif is_log and module.startswith(ABOVE_THE_LOG):
            complaints.append(f"{path}: {module} stands above the log")
    if package in SIBLINGS:
        complaints += [
            f"{path}: {module} is not public"
            for module in modules_reached_into(source)
            if module.startswith("storage_core") and module not in OPEN_TO_SIBLINGS
        ]
    return complaints


def test_every_import_keeps_to_the_layers() -> None:
    sources = product_files()
    assert sources
    assert [line for path, source in sources.items() for line in breaches(path, source)] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage_core/shard.py", "import rocksdict"),
        ("storage_core/shard.py", "from rocksdict import Rdict"),
        ("storage_core/shard.py", "def f():\n    import confluent_kafka.admin"),
        ("storage_core/shard.py", "from pyspark.sql import Row"),
        ("storage_core/shard.py", "import fastavro"),
        ("storage_core/shard.py", "import requests"),
        ("storage_core/shard.py", "import connectors"),
        ("storage_core/shard.py", "import tests.lab"),
        ("storage_core/shard.py", "from . import block"),
        ("storage_core/shard.py", "from ..storage_core.block import Block"),
        ("storage_core/shard.py", "from storage_core import fields"),
        ("storage_core/shard.py", "import storage_core.fields.schemas"),
        ("connectors/worker.py", "import streaming_jobs.source.options"),
        ("connectors/worker.py", "import confluent_kafka"),
        ("connectors/worker.py", "from storage_core.shard import Shard"),
        ("streaming_jobs/source/options.py", "from connectors import options"),
        ("streaming_jobs/source/options.py", "import rocksdict"),
    ],
)
def test_breach_of_the_layers_is_found(path: str, source: str) -> None:
    assert breaches(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage_core/rocks.py", "from rocksdict import Rdict"),
        ("storage_core/shard.py", "import os\nfrom storage_core.block import Block\nimport numpy"),
        (
            "storage_core/fields/avro_codec.py",
            "import fastavro\nimport storage_core.fields.schemas",
        ),
        ("connectors/kafka_client/consumer.py", "from confluent_kafka import Consumer"),
        (
            "connectors/worker.py",
            "from storage_core import Stream\nfrom storage_core import testing",
        ),
        (
            "streaming_jobs/source/options.py",
            "import pyspark\nfrom storage_core.testing import ManualClock",
        ),
    ],
)
def test_import_within_the_layers_passes(path: str, source: str) -> None:
    assert breaches(path, source) == []
