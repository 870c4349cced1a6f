"""The command starts at once: what a verb works with is loaded when it is called, and not before.

One fresh interpreter asks for the list of verbs, the version and each verb's help, and tells what
it has loaded after each. `shardlog --help` takes two to three times what a bare interpreter takes
with argparse, json and logging; Arrow alone would double that, and so would a few dozen modules.
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
from connectors.cli.parsing.table import Verb
from storage_core import Stream, StreamOptions
from tests.tidy.tree import ROOT, product_files

# What works for verbs, and for no help of any.
FOR_WORK = {
    *("confluent_kafka", "duckdb", "fastavro", "fsspec", "numpy", "pandas", "pyarrow", "pydantic"),
    *("pyspark", "rich", "rocksdict", "structlog", "xxhash"),
}
# Beside those that an interpreter begins with, which are its own: typer asks for 130; ours are 18.
MODULES_MAX = 180
OURS_MAX = 20
# Beside its declaration, which of ours the help of a verb asks for: options, and what they may be.
OURS_OF_A_VERB_MAX = 5
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
    """Yield the names that lead to each verb, and the function that declares it."""
    command = command.loaded() if isinstance(command, Verb) else command
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from declared(inner, *names, name)
    else:
        yield names, inspect.unwrap(command.callback)


VERBS = dict(declared(typer.main.get_command(app)))
ASKED = [["--help"], ["--version"], *([*verb, "--help"] for verb in VERBS)]
STATUS = "status"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[str, list[str]]:
    """The modules that are loaded after each of the words that were asked, in their order.

    The last one is called, with a root of one stream.
    """
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, "orders", StreamOptions()) as stream:
        stream.append(1, 0, b"x")
    asked = [*ASKED, [STATUS, str(root)]]
    program = [sys.executable, "-c", LOADED, json.dumps(asked)]
    ran = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True)
    told = json.loads(ran.stdout)
    assert {code for code, _, _ in told} == {0}
    assert min(length for _, length, _ in told) > 0
    names = [" ".join(words) for words in ASKED]
    return {said: one[2] for said, one in zip([*names, STATUS], told, strict=True)}


def test_list_of_verbs_loads_no_verb_and_few_modules(loaded) -> None:
    names = loaded["--help"]
    ours = [name for name in names if name.split(".")[0] in OURS]
    verbs = {name for name in ours if name.startswith("connectors.cli.parsers.")}
    assert verbs == {f"connectors.cli.parsers.{name}" for name in ("group", "table", "work")}
    assert len(ours) <= OURS_MAX
    assert len(names) <= MODULES_MAX


def test_no_help_and_no_version_loads_what_verbs_work_with(loaded) -> None:
    found = {
        asked: sorted({name.split(".")[0] for name in names} & FOR_WORK)
        for asked, names in loaded.items()
        if asked != STATUS
    }
    assert {asked: names for asked, names in found.items() if names} == {}


def test_help_of_a_verb_loads_its_declaration_and_little_beside_it(loaded) -> None:
    counts = [sum(name.split(".")[0] in OURS for name in names) for names in loaded.values()][:-1]
    assert max(after - before for before, after in pairwise(counts)) <= OURS_OF_A_VERB_MAX


def test_status_loads_neither_kafka_nor_what_reads_values_or_parts(loaded) -> None:
    names = {*loaded[STATUS]}
    assert "pyarrow" in names
    others = {"confluent_kafka", "duckdb", "fastavro", "pandas", "pyarrow.parquet", "structlog"}
    assert names & others == set()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_verb_is_done_with_what_it_may_be_told(verb) -> None:
    said = VERBS[verb]
    module = import_module(
        said.__module__.replace("connectors.cli.parsers.", "connectors.cli.commands.")
    )
    done = getattr(module, said.__name__)
    assert {**hints(done), "return": None} == {**hints(said), "return": None}
    told = inspect.signature(done).parameters.values()
    assert {one.kind for one in told} <= {inspect.Parameter.KEYWORD_ONLY}
    # What is meant where nothing is said is declared, and nowhere else.
    assert {one.default for one in told} <= {inspect.Parameter.empty}


def hints(function: Any) -> dict[str, Any]:
    """Return the types of a function's parameters, without what typer reads of them."""
    return get_type_hints(function)


def lists_of(source: str) -> list[dict[str, list[str]]]:
    """Return the names by module that a package shows type checkers, and those it loads."""
    shown, table = {}, {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            imports = [one for one in node.body if isinstance(one, ast.ImportFrom)]
            shown = {str(one.module): sorted(each.name for each in one.names) for one in imports}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_exports":
            table = {name: sorted(names) for name, names in ast.literal_eval(node.args[1]).items()}
    return [shown, table]


ON_DEMAND = [
    path
    for path, source in product_files().items()
    if path.endswith("/__init__.py") and "lazy_exports(" in source
]


@pytest.mark.parametrize("path", ON_DEMAND)
def test_package_loads_on_demand_what_it_shows_type_checkers(path) -> None:
    package = path.removesuffix("/__init__.py").replace("/", ".")
    shown, table = lists_of(product_files()[path])
    assert {f"{package}.{module}": names for module, names in table.items()} == shown
    exported = import_module(package)
    assert sorted(exported.__all__) == sorted(name for names in table.values() for name in names)
    assert {*exported.__all__} <= {*dir(exported)}
    assert [name for name in exported.__all__ if not hasattr(exported, name)] == []
    # A module of the same name would take the place of what is exported once it is imported.
    below = {one.name for one in iter_modules(exported.__path__)}
    assert {name.partition(".")[0] for name in table} <= below
    assert below & {*exported.__all__} == set()
