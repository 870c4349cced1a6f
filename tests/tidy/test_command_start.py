"""`shardlog` starts at once: the code of a command is loaded when it is called, and not before.

A fresh interpreter asks for the list of commands, the version and each command's help, and says
what it has loaded after each. `shardlog --help` takes two to three times what a bare interpreter
takes with argparse, json and logging; Arrow alone would double that, and so would a few dozen
modules.
"""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from typing import Any, get_type_hints

import pytest
import typer

from connectors.cli.main import app
from connectors.cli.parsing.table import LazyCommand
from storage_core import Stream, StreamOptions
from tests.tidy.tree import ROOT, product_files

# What works for commands, and for no help of any.
FOR_WORK = {
    *("confluent_kafka", "duckdb", "fastavro", "fsspec", "numpy", "pandas", "pyarrow", "pydantic"),
    *("pyspark", "rich", "rocksdict", "structlog", "xxhash"),
}
# Beside those that an interpreter begins with, which are its own: typer asks for 130; ours are 18.
MODULES_MAX = 180
OURS_MAX = 21
# Modules of ours that the help of a command loads beside its declaration.
OURS_OF_A_COMMAND_MAX = 5
OURS = ("connectors", "storage_core")
LOADED = """
import sys
begun = set(sys.modules)
import io, json
from contextlib import redirect_stdout
from connectors.cli.main import outcome

loaded = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as said:
        code = outcome(words)
    loaded.append((code, len(said.getvalue()), [name for name in sys.modules if name not in begun]))
print(json.dumps(loaded))
"""


def declared(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the names that lead to each command, and the function that declares it."""
    command = command.loaded() if isinstance(command, LazyCommand) else command
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from declared(inner, *names, name)
    else:
        yield names, inspect.unwrap(command.callback)


COMMANDS = dict(declared(typer.main.get_command(app)))
ASKED = [["--help"], ["--version"], *([*command, "--help"] for command in COMMANDS)]
STATUS = "status"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[str, list[str]]:
    """The modules that are loaded after each of the words that were asked, in their order.

    The last one is called, with a root of one stream.
    """
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, "orders", StreamOptions()) as stream:
        stream.append(1, 0, b"x")
    commands = [*ASKED, [STATUS, str(root)]]
    program = [sys.executable, "-c", LOADED, json.dumps(commands)]
    ran = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True)
    answers = json.loads(ran.stdout)
    assert {code for code, _, _ in answers} == {0}
    assert min(length for _, length, _ in answers) > 0
    names = [" ".join(words) for words in ASKED]
    return {said: one[2] for said, one in zip([*names, STATUS], answers, strict=True)}


def test_list_of_commands_loads_no_command_and_few_modules(loaded) -> None:
    names = loaded["--help"]
    ours = [name for name in names if name.split(".")[0] in OURS]
    assert not [name for name in ours if name.startswith("connectors.cli.parsers.")]
    parsing = {name for name in ours if name.startswith("connectors.cli.parsing.")}
    assert parsing == {f"connectors.cli.parsing.{name}" for name in ("group", "table", "work")}
    assert len(ours) <= OURS_MAX
    assert len(names) <= MODULES_MAX


def test_no_help_and_no_version_loads_what_verbs_work_with(loaded) -> None:
    foreign = {
        command: sorted({name.split(".")[0] for name in names} & FOR_WORK)
        for command, names in loaded.items()
        if command != STATUS
    }
    assert {command: names for command, names in foreign.items() if names} == {}


def test_help_of_a_command_loads_its_declaration_and_little_beside_it(loaded) -> None:
    counts = [sum(name.split(".")[0] in OURS for name in names) for names in loaded.values()][:-1]
    assert max(after - before for before, after in pairwise(counts)) <= OURS_OF_A_COMMAND_MAX


def test_status_loads_neither_kafka_nor_what_reads_values_or_parts(loaded) -> None:
    names = {*loaded[STATUS]}
    assert "pyarrow" in names
    others = {"confluent_kafka", "duckdb", "fastavro", "pandas", "pyarrow.parquet", "structlog"}
    assert names & others == set()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_is_done_with_what_it_may_be_told(command) -> None:
    said = COMMANDS[command]
    done = getattr(import_module(said.done_in), said.__name__)
    assert {**hints(done), "return": None} == {**hints(said), "return": None}
    parameters = inspect.signature(done).parameters.values()
    assert {one.kind for one in parameters} <= {inspect.Parameter.KEYWORD_ONLY}
    # What is meant where nothing is said is declared, and nowhere else.
    assert {one.default for one in parameters} <= {inspect.Parameter.empty}


def hints(function: Any) -> dict[str, Any]:
    """Return the types of a function's parameters, without what typer reads of them."""
    return get_type_hints(function)


def lists_of(source: str) -> list[dict[str, list[str]]]:
    """Return the names by module that a package shows type checkers, and those it loads."""
    exported, table = {}, {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            imports = [one for one in node.body if isinstance(one, ast.ImportFrom)]
            exported = {str(one.module): sorted(each.name for each in one.names) for one in imports}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_exports":
            table = {name: sorted(names) for name, names in ast.literal_eval(node.args[1]).items()}
    return [exported, table]


ON_DEMAND = [
    path
    for path, source in product_files().items()
    if path.endswith("/__init__.py") and "lazy_exports(" in source
]


@pytest.mark.parametrize("path", ON_DEMAND)
def test_package_loads_on_demand_what_it_shows_type_checkers(path) -> None:
    package = path.removesuffix("/__init__.py").replace("/", ".")
    exported, table = lists_of(product_files()[path])
    assert {f"{package}.{module}": names for module, names in table.items()} == exported
    loaded = import_module(package)
    assert sorted(loaded.__all__) == sorted(name for names in table.values() for name in names)
    assert {*loaded.__all__} <= {*dir(loaded)}
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    # A module of the same name would take the place of what is loaded once it is imported.
    below = {one.name for one in iter_modules(loaded.__path__)}
    assert {name.partition(".")[0] for name in table} <= below
    assert below & {*loaded.__all__} == set()
