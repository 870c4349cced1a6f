"""What users do is told in scenarios: tests in folders of tests/log name no module of the log.

A module may then be renamed, split or joined, and no scenario changes. Nor does one use what a
module keeps to itself. Both are left to a few files that give the scenarios their words.
"""

import ast

import pytest

from tests.tidy.test_layers import OPEN_TO_SIBLINGS, imported, module_of
from tests.tidy.tree import product_files, python_files

# What gives the scenarios their words: these files of tests/log alone know the log from inside.
WORDS = (
    "tests/log/fixtures.py",
    "tests/log/hooked_disk.py",
    "tests/log/indexed.py",
    "tests/log/killed_calls.py",
    "tests/log/on_disk.py",
    "tests/log/readers.py",
    "tests/log/resets.py",
    "tests/log/topics.py",
    "tests/log/batches.py",
    "tests/log/workbench.py",
    "tests/log/expiry/sql_doors.py",
    "tests/log/parts/parts_lab.py",
    "tests/log/parts/wide_zones.py",
    "tests/log/export/forging.py",
)


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """All modules that are shipped."""
    return {module_of(path) for path in product_files()}


def inner_modules(source: str, modules: set[str]) -> list[str]:
    """Return the modules of the log that a source imports, the public ones left out."""
    return [
        module
        for module in imported(source, modules)
        if module.split(".")[0] == "storage_core" and module not in OPEN_TO_SIBLINGS
    ]


def private_attributes(source: str) -> list[str]:
    """Return the attributes of one leading underscore that a source uses of others than `self`."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]


def insides(source: str, modules: set[str]) -> list[str]:
    """Return what a source knows of the log from inside."""
    return inner_modules(source, modules) + private_attributes(source)


def test_only_the_words_of_scenarios_know_the_log_from_inside(modules: set[str]) -> None:
    inner_names = {
        path: insides(source, modules)
        for path, source in python_files("tests").items()
        if path.startswith("tests/log/") and path not in WORDS
    }
    assert {path: inside for path, inside in inner_names.items() if inside} == {}


@pytest.mark.parametrize(
    ("source", "inner"),
    [
        ("from storage_core.write.shard import Shard", ["storage_core.write.shard"]),
        ("import storage_core.engine.rocksdb", ["storage_core.engine.rocksdb"]),
        ("from storage_core import rows", ["storage_core.rows"]),
        ("from storage_core import Stream\nfrom storage_core.testing import FaultyDisk", []),
    ],
)
def test_inner_modules_are_found(source: str, inner: list[str], modules: set[str]) -> None:
    assert inner_modules(source, modules) == inner


@pytest.mark.parametrize(
    ("source", "private"),
    [
        ("store = reader._shards[0]._store", ["reader._shards[0]._store", "reader._shards"]),
        ("bench.shard._store.flush()", ["bench.shard._store"]),
        ("reader._open_shards = overtaken", ["reader._open_shards"]),
        ("self._calls = stream.__class__, one.two_", []),
    ],
)
def test_private_attributes_are_found(source: str, private: list[str]) -> None:
    assert private_attributes(source) == private
