"""Who may import whom: rooms have ranks, each foreign library has its one door, and no circle.

A package is a house of rooms, its folders and the files that stand in it beside them. A room
imports only rooms of lower ranks of its own package, and of the log other packages import
public names alone. connectors and streaming_jobs never import each other, but for the registry's
client, which stands on the log alone and which Spark's readers need as well. Every import is
absolute, and one that is for type checkers only counts like any other.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from subprocess import run

import pytest

from tests.tidy.tree import ROOT, product_files

# From the ground up; the rooms of one rank do not know each other.
RANKS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "storage_core": (
        ("errors",),
        ("platform",),
        ("format",),
        ("engine", "avro"),
        ("catalog",),
        ("ids", "parts"),
        ("read",),
        ("write", "protocol"),
        ("transactions", "verify", "retention"),
        ("tiering",),
        ("open_shards", "testing"),
        ("rows",),
        ("facade",),
        ("stream_maintenance", "stream_writes", "remote"),
        ("stream", "reader", "roots"),
        ("remote_reader", "staging", "sql", "export"),
        ("answering", "landing", "owners_reader", "lake"),
        ("staged_answers",),
        ("__init__",),
    ),
    "connectors": (
        ("kafka", "output_formats", "registry"),
        ("settings", "group"),
        ("dlq",),
        ("ingest",),
        ("monitoring",),
        ("serve",),
        ("__init__",),
        ("devtools",),
        ("cli",),
    ),
    "streaming_jobs": (
        ("common",),
        ("source", "sink", "parts"),
        ("data_source",),
        # They reach the source and the sink as everybody does, by their format's name.
        ("jobs",),
        ("__init__",),
    ),
    "typed_events": (
        ("errors", "answer"),
        ("language",),
        ("types", "refusals"),
        ("store", "query"),
        ("remembered", "subscriptions"),
        ("event_store",),
        ("__init__",),
    ),
}
# Where a library may be imported; a folder ends in a slash.
DOORS = {
    "deltalake": ("storage_core/lake/",),
    "duckdb": ("storage_core/sql/engine.py",),
    "fsspec": ("storage_core/sql/part_file_system.py",),
    "confluent_kafka": ("connectors/kafka/",),
    "lark": ("typed_events/language/",),
    "fastavro": ("storage_core/avro/schema.py", "storage_core/avro/json_encoder.py"),
    "pyspark": ("streaming_jobs/", "pyspark_shardlog.py"),
    "rocksdict": (
        "storage_core/engine/rocksdb.py",
        "storage_core/engine/rocksdb_binding.py",
    ),
    "wsproto": ("connectors/serve/websocket/",),
    "xxhash": ("storage_core/platform/xxh3.py",),
}
# All that the log stands on beside the standard library.
BESIDE_THE_LOG = {
    "deltalake",
    "duckdb",
    "fastavro",
    "fsspec",
    "numpy",
    "pyarrow",
    "pyroaring",
    "rocksdict",
    "storage_core",
    # For type checkers alone (platform/overriding.py).
    "typing_extensions",
    "xxhash",
}
# Whom a package does not know. Typed events stand on the log; the server and its commands on them.
STRANGERS = {
    "connectors": {"streaming_jobs"},
    "streaming_jobs": {"connectors", "typed_events"},
    "typed_events": {"connectors", "streaming_jobs"},
}
# Of a sibling package: what stands on the log alone, and brings no Kafka client along.
LENT = {"streaming_jobs": ("connectors.registry", "connectors.cli.parsing.servers")}
OPEN_TO_SIBLINGS = (
    "storage_core",
    "storage_core.answering",
    "storage_core.catalog.lake_uri",
    "storage_core.landing",
    "storage_core.staged_answers",
    "storage_core.platform.arrow",
    "storage_core.platform.closing",
    "storage_core.platform.handle_pool",
    "storage_core.remote.staging_client",
    "storage_core.transactions.staged_batch",
    "storage_core.sql",
    "storage_core.sql.field_columns",
    "storage_core.sql.pool.pooled_stream",
    "storage_core.sql.pool.row_digests",
    "storage_core.sql.pool.stream_pool",
    "storage_core.sql.pool.stream_ranges",
    "storage_core.sql.part_groups",
    "storage_core.sql.access.path_streams",
    "storage_core.sql.query_errors",
    "storage_core.sql.stream_columns",
    "storage_core.sql.stream_snapshot",
    "storage_core.sql.stream_view",
    "storage_core.sql.type_unification",
    "storage_core.export",
    "storage_core.lake",
    "storage_core.avro",
    "storage_core.platform.disk_usage",
    "storage_core.platform.durable_file",
    "storage_core.platform.name_suggestions",
    "storage_core.platform.overriding",
    "storage_core.platform.lazy_exports",
    "storage_core.platform.python_values",
    "storage_core.platform.extras",
    "storage_core.avro.written_times",
    "storage_core.platform.xxh3",
    "storage_core.remote.addresses",
    "storage_core.remote.connections",
    "storage_core.remote.one_root",
    "storage_core.remote.served_root",
    "storage_core.owners_reader",
    "storage_core.remote_reader",
    "storage_core.roots",
    "storage_core.parts.part_home",
    "storage_core.parts.visible_rows",
    "storage_core.protocol",
    "storage_core.testing",
)


def module_of(path: str) -> str:
    """Return the dotted name under which a file is imported."""
    return (
        PurePosixPath(path).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    )


def room_of(module: str) -> str:
    """Return the room of a module: a folder of its package, or a file beside the folders."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def imported(source: str, modules: Iterable[str] = ()) -> Iterator[str]:
    """Yield the modules a source imports; what `from a import b` takes is a.b where that is one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                name = f"{module}.{alias.name}"
                yield name if name in modules else module


def breaches(path: str, source: str, modules: Iterable[str] = ()) -> list[str]:
    """Return what a file imports against the rules; `modules` are all there are."""
    package = PurePosixPath(path).parts[0]
    complaints = []
    for module in sorted(set(imported(source, modules))):
        library = module.split(".")[0]
        if module.startswith("."):
            complaints.append(f"{path}: relative import {module}")
        elif library in DOORS and not path.startswith(DOORS[library]):
            complaints.append(f"{path}: {library} belongs to {', '.join(DOORS[library])}")
        elif library == package in RANKS:
            complaints += arrows_upward(path, module)
        elif package == "storage_core" and library not in BESIDE_THE_LOG | sys.stdlib_module_names:
            complaints.append(f"{path}: storage_core does not stand on {library}")
        elif library in STRANGERS.get(package, ()) and module not in LENT.get(package, ()):
            complaints.append(f"{path}: {package} and {library} do not know each other")
        elif package in STRANGERS and library == "storage_core" and module not in OPEN_TO_SIBLINGS:
            complaints.append(f"{path}: {module} is not public")
    return complaints


def arrows_upward(path: str, module: str) -> list[str]:
    """Return the complaint that a module of the same package stands no lower, if it does."""
    ranks = RANKS[module.split(".", maxsplit=1)[0]]
    here, other = room_of(module_of(path)), room_of(module)
    if here == other:
        return []
    heights = {room: height for height, rooms in enumerate(ranks) for room in rooms}
    missing = [f"{path}: no rank names {room}" for room in (here, other) if room not in heights]
    if missing or heights[other] < heights[here]:
        return missing
    return [f"{path}: {here} stands on lower rooms, {other} is none of them ({module})"]


def circle(sources: Mapping[str, str]) -> list[str]:
    """Return the modules of a circle of imports, empty if there is none."""
    modules = {module_of(path): source for path, source in sources.items()}
    arrows = {
        module: {one for one in imported(source, modules) if one in modules} - {module}
        for module, source in modules.items()
    }
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_import_keeps_to_the_layers() -> None:
    sources = product_files()
    assert sources
    modules = {module_of(path) for path in sources}
    complaints = [
        line for path, source in sources.items() for line in breaches(path, source, modules)
    ]
    assert complaints == []


def test_what_is_lent_brings_no_kafka_client_along() -> None:
    program = (
        "import sys; from connectors.registry import *; print('confluent_kafka' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    assert run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "False\n"


def test_no_files_stand_in_a_circle() -> None:
    assert circle(product_files()) == []


def test_no_room_is_empty() -> None:
    paths = [PurePosixPath(path) for path in product_files()]
    lived_in = {room for path in paths if path.name != "__init__.py" for room in path.parents}
    assert {path.parent for path in paths} - lived_in == set()


def test_every_rank_names_rooms_that_are_there() -> None:
    for package, ranks in RANKS.items():
        for room in (room for rooms in ranks for room in rooms):
            assert (ROOT / package / room).is_dir() or (ROOT / package / f"{room}.py").is_file()


def unnamed(text: str, paths: Iterable[str]) -> list[str]:
    """Return the rooms, folders of a package, that a text does not name."""
    rooms = {"/".join(path.split("/")[:2]) for path in paths if path.count("/") > 1}
    return sorted(room for room in rooms if f"`{room}/`" not in text)


def test_architecture_names_every_room() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = text.partition("## The rooms")[2].partition("## The walk")[0]
    assert unnamed(rooms, product_files()) == []


def test_room_that_architecture_does_not_name_is_found() -> None:
    paths = ["top.py", "storage_core/errors.py", "storage_core/format/block.py"]
    assert unnamed("`storage_core/format/` has every byte", paths) == []
    assert unnamed("storage_core/format/ has every byte", paths) == ["storage_core/format"]


MODULES = {"storage_core", "storage_core.format.block", "storage_core.write.shard"}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage_core/write/shard.py", "import rocksdict"),
        ("storage_core/write/shard.py", "from rocksdict import Rdict"),
        ("storage_core/write/shard.py", "def f():\n    import confluent_kafka.admin"),
        ("storage_core/write/shard.py", "from pyspark.sql import Row"),
        ("storage_core/write/shard.py", "import requests"),
        ("storage_core/write/shard.py", "import connectors"),
        ("storage_core/write/shard.py", "import tests.lab"),
        ("storage_core/write/shard.py", "from . import entry"),
        ("storage_core/write/shard.py", "from ..format.block import Block"),
        ("storage_core/write/shard.py", "from storage_core.stream import Stream"),
        ("storage_core/write/shard.py", "from storage_core import Stream"),
        ("storage_core/write/shard.py", "import storage_core.nowhere.schemas"),
        ("storage_core/nowhere/a.py", "import storage_core.format.block"),
        ("storage_core/format/block.py", "from storage_core.write.shard import Shard"),
        ("storage_core/format/block.py", "from storage_core.write import shard"),
        (
            "storage_core/format/block.py",
            "if TYPE_CHECKING:\n    from storage_core.write.shard import Shard",
        ),
        ("storage_core/verify/verify.py", "from storage_core.transactions.finish import finish"),
        ("connectors/ingest/worker.py", "import streaming_jobs.source.options"),
        ("connectors/ingest/worker.py", "import confluent_kafka"),
        ("connectors/ingest/worker.py", "from storage_core.write.shard import Shard"),
        ("connectors/ingest/worker.py", "from storage_core.write import shard"),
        ("streaming_jobs/source/options.py", "from connectors import options"),
        ("streaming_jobs/source/options.py", "from typed_events import EventStore"),
        ("typed_events/language/parse.py", "import connectors.settings"),
        ("typed_events/language/parse.py", "from storage_core.write.shard import Shard"),
        (
            "streaming_jobs/common/schemas.py",
            "from connectors.registry.client import RegistryClient",
        ),
        ("connectors/registry/client.py", "import streaming_jobs.common.schemas"),
        ("streaming_jobs/source/options.py", "import rocksdict"),
        ("streaming_jobs/sink/options.py", "from streaming_jobs.source.options import Mode"),
        ("streaming_jobs/common/schemas.py", "import streaming_jobs.source.executor.task"),
    ],
)
def test_breach_of_the_layers_is_found(path: str, source: str) -> None:
    assert breaches(path, source, MODULES)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("storage_core/engine/rocksdb.py", "from rocksdict import Rdict"),
        (
            "storage_core/write/shard.py",
            "import os\nfrom storage_core.format.block import Block\nimport numpy",
        ),
        ("storage_core/write/shard.py", "from storage_core.write.plan import Plan"),
        ("connectors/kafka/consumer.py", "from confluent_kafka import Consumer"),
        (
            "connectors/ingest/worker.py",
            "from storage_core import Stream\nfrom storage_core.testing import ManualClock",
        ),
        ("streaming_jobs/source/options.py", "import pyspark\nfrom storage_core import Stream"),
        ("streaming_jobs/common/schemas.py", "from connectors.registry import RegistryClient"),
    ],
)
def test_import_within_the_layers_passes(path: str, source: str) -> None:
    assert breaches(path, source, MODULES) == []


def test_circle_is_found_also_where_it_is_for_type_checkers_only() -> None:
    sources = {
        "storage_core/write/a.py": "from storage_core.write.b import B",
        "storage_core/write/b.py": "if TYPE_CHECKING:\n    from storage_core.write import c",
        "storage_core/write/c.py": "from storage_core.write import a",
    }
    assert circle(sources)
    del sources["storage_core/write/c.py"]
    assert circle(sources) == []
