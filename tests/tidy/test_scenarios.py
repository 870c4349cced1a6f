"""What users do is told in scenarios: tests in folders of tests/log name no module of the log.

A module may then be renamed, split or joined, and no scenario changes. Nor does one use what a
module keeps to itself. Both are left to a few files that give the scenarios their words. What must
reach inside lies with the module that it tests, in a file called like it, and is the smaller part.
"""

import ast
from pathlib import PurePosixPath

import pytest

from tests.tidy.test_layers import OPEN_TO_SIBLINGS, imported, module_of
from tests.tidy.tree import product_files, python_files

# What gives the scenarios their words: these files of tests/log alone know the log from inside.
WORDS = (
    "tests/log/fixtures.py",
    "tests/log/hooked_disk.py",
    "tests/log/indexed.py",
    "tests/log/on_disk.py",
    "tests/log/readers.py",
    "tests/log/topics.py",
    "tests/log/workbench.py",
    "tests/log/parts/parts_lab.py",
    "tests/log/export/forging.py",
)
# What writes, transacts and reads; opening is a part of writing.
SUBJECTS = ("read", "transactions", "write")


def is_test(path: str) -> bool:
    return PurePosixPath(path).name.startswith("test_")


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


def scenarios() -> dict[str, str]:
    """Return path and source of the tests in the folders of tests/log."""
    sources = python_files("tests")
    return {
        path: source
        for path, source in sources.items()
        if path.startswith("tests/log/") and path.count("/") > 2 and is_test(path)
    }


def test_only_the_words_of_scenarios_know_the_log_from_inside(modules: set[str]) -> None:
    inner_names = {
        path: insides(source, modules)
        for path, source in python_files("tests").items()
        if path.startswith("tests/log/") and path not in WORDS
    }
    assert {path: inside for path, inside in inner_names.items() if inside} == {}


@pytest.mark.parametrize("path", WORDS)
def test_file_of_words_must_know_the_log_from_inside(path: str, modules: set[str]) -> None:
    assert insides(python_files("tests")[path], modules)


def test_most_files_of_what_users_do_are_scenarios() -> None:
    folders = tuple(f"tests/unit/storage_core/{room}/" for room in SUBJECTS)
    inside = [path for path in python_files("tests") if path.startswith(folders) and is_test(path)]
    assert inside
    assert len(scenarios()) > len(inside)


def test_what_reaches_inside_is_called_like_a_module_of_its_room(modules: set[str]) -> None:
    strays = []
    for path in filter(is_test, python_files("tests")):
        *folders, room, file = PurePosixPath(path).parts
        if folders == ["tests", "unit", "storage_core"]:
            name = file.removeprefix("test_").removesuffix(".py")
            prefixes = (f"storage_core.{room}.{name[:end]}" for end in range(1, len(name) + 1))
            strays += [] if modules.intersection(prefixes) else [path]
    assert strays == []


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
