"""The programs of examples/ are short, say how they are run, and use public names alone."""

import ast

import pytest

from tests.example_programs import EXAMPLES, OF_KAFKA, OF_SPARK, PLAIN, expect, lines_promised
from tests.tidy.test_layers import OPEN_TO_SIBLINGS, imported
from tests.tidy.tree import python_files

LINES_MAX = 60
COMMAND = "\n\nRun it: {}python examples/{}\n"
BROKER = 'eval "$(shardlog dev up)" && '
# What of the rest of the packages the documents name for programs.
NAMED = ("streaming_jobs.jobs.roll_up", "streaming_jobs.parts", "pyspark_shardlog")
PACKAGES = ("storage_core", "connectors", "streaming_jobs", "typed_events", "pyspark_shardlog")
PROGRAMS = sorted([*PLAIN, *OF_SPARK, *OF_KAFKA])


def source(program: str) -> str:
    return python_files("examples")[f"examples/{program}"]


def test_each_program_is_run_by_a_test_and_stands_in_the_table() -> None:
    programs = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert programs == PROGRAMS
    assert sorted(lines_promised()) == PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_short_and_says_how_it_is_run(program: str) -> None:
    text = source(program)
    assert len(text.splitlines()) <= LINES_MAX
    command = COMMAND.format(BROKER if program in OF_KAFKA else "", program)
    assert (ast.get_docstring(ast.parse(text), clean=False) or "").endswith(command)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_uses_public_names_alone(program: str) -> None:
    ours = [name for name in imported(source(program)) if name.split(".")[0] in PACKAGES]
    assert [name for name in ours if name not in (*OPEN_TO_SIBLINGS, *NAMED)] == []


def test_line_that_is_not_printed_is_found() -> None:
    printed = "\n".join(lines_promised()["read.py"])
    expect("read.py", printed)
    with pytest.raises(AssertionError, match="did not print"):
        expect("read.py", printed.replace("7", "8"))
