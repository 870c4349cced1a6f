"""What `make quick` picks is what a change reaches, and what it leaves out it says."""

import subprocess
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT
from tests.touched import changed_files, left_out, modules_of, nearest, reached

LIST = """
from storage_core.stream import Stream
from storage_core.reader import Reader
"""
SOURCES = {
    "storage_core/__init__.py": LIST,
    "storage_core/block.py": "",
    "storage_core/stream.py": "from storage_core.block import Block",
    "storage_core/reader.py": "from storage_core import block",
    "storage_core/alone.py": "",
    "connectors/cli/__init__.py": "",
    "connectors/cli/commands/__init__.py": "",
    "connectors/cli/main.py": 'def load(name): import_module(f"connectors.cli.commands.{name}")',
    "connectors/cli/commands/status.py": "from storage_core import Reader",
    "tests/lab.py": "from storage_core import Stream",
    "tests/unit/conftest.py": "from storage_core.alone import nothing",
    "tests/unit/storage_core/test_block.py": "def test_one():\n    import storage_core.block",
    "tests/unit/connectors/test_main.py": 'RUN = "-m connectors.cli.main"',
    "tests/log/test_stream.py": "import tests.lab",
}


BLOCK, MAIN, STREAM = (
    "tests/unit/storage_core/test_block.py",
    "tests/unit/connectors/test_main.py",
    "tests/log/test_stream.py",
)


@pytest.mark.parametrize(
    ("changed", "far"),
    [
        # The public name leads to the module that has it, not to all that the package exports.
        ("storage_core/stream.py", {STREAM: 2}),
        ("storage_core/reader.py", {MAIN: 3}),
        ("storage_core/block.py", {BLOCK: 1, STREAM: 3, MAIN: 4}),
        ("storage_core/__init__.py", {STREAM: 2, MAIN: 3}),
        # A command is imported by a name that is put together.
        ("connectors/cli/commands/status.py", {MAIN: 2}),
        # Fixtures are lent to the tests below them.
        ("storage_core/alone.py", {BLOCK: 2, MAIN: 2}),
        ("tests/unit/conftest.py", {BLOCK: 1, MAIN: 1}),
        (STREAM, {STREAM: 0}),
    ],
)
def test_tests_that_reach_a_changed_file_are_those_that_import_it(
    changed: str, far: dict[str, int]
) -> None:
    assert reached(SOURCES, [changed]) == (far, [])


def test_file_that_is_gone_is_reached_by_who_still_imports_it() -> None:
    left = {path: source for path, source in SOURCES.items() if path != "storage_core/block.py"}
    assert set(reached(left, ["storage_core/block.py"])[0]) == {BLOCK, STREAM, MAIN}


def test_file_without_a_test_is_told() -> None:
    assert reached(SOURCES, ["Makefile", "tests/spark/test_sink.py", BLOCK]) == (
        {BLOCK: 0},
        ["Makefile", "tests/spark/test_sink.py"],
    )


def test_file_that_is_no_module_is_of_those_that_name_it_or_lie_beside_it() -> None:
    sources = SOURCES | {"tests/log/schemas.py": 'PATH = "devices.avsc"'}
    assert modules_of("schemas/devices.avsc", sources) == ["tests/log/schemas.py"]
    assert modules_of("connectors/cli/native/fetch.c", sources) == [
        "connectors/cli/__init__.py",
        "connectors/cli/main.py",
    ]
    assert modules_of("README.md", sources) == []
    assert modules_of("examples/read.py", sources) == ["tests/example_programs.py"]


def test_nearest_run_first_and_of_those_the_tests_of_the_changed_folder() -> None:
    far = {"tests/log/test_a.py": 2, "tests/log/test_b.py": 1, "tests/unit/x/test_c.py": 1}
    order = ["tests/unit/x/test_c.py", "tests/log/test_b.py", "tests/log/test_a.py"]
    assert nearest(far, ["x/module.py"]) == order


def test_what_is_left_out_is_said() -> None:
    assert left_out(["tests/log/test_a.py", "tests/log/test_b.py"], ["Makefile"]) == [
        "left out: 2 files that the change reaches, tests/log/test_a.py first; make test runs them",
        "no test here is of Makefile; make test has those",
    ]
    assert left_out([], []) == []


def git(root: Path, *command: str) -> None:
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *author, *command], cwd=root, check=True, capture_output=True)


def test_changed_is_what_is_not_committed_else_what_the_last_commit_changed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "first.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    assert changed_files(tmp_path) == ["first.py"]
    (tmp_path / "first.py").write_text("1")
    (tmp_path / "new.py").write_text("")
    assert changed_files(tmp_path) == ["first.py", "new.py"]


def test_file_that_was_renamed_is_gone_and_new(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "old.py").write_text("ONE = 1\nTWO = 2\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "mv", "old.py", "new.py")
    assert changed_files(tmp_path) == ["new.py", "old.py"]
    git(tmp_path, "commit", "-m", "second")
    assert changed_files(tmp_path) == ["new.py", "old.py"]


def test_merge_has_changed_what_it_brought(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    git(tmp_path, "checkout", "-b", "side")
    (tmp_path / "brought.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "of the side")
    git(tmp_path, "checkout", "-")
    git(tmp_path, "commit", "--allow-empty", "-m", "second")
    git(tmp_path, "merge", "side")
    assert changed_files(tmp_path) == ["brought.py"]


def test_modules_of_the_format_are_picked_by_the_tests_of_their_name() -> None:
    folders = (ROOT / "storage_core/format", ROOT / "tests/unit/storage_core/format")
    paths = [path for folder in folders for path in folder.glob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    tests = [path for path in sources if "/test_" in path]
    assert tests
    for test in tests:
        module = test.removeprefix("tests/unit/").replace("test_", "")
        if module in sources:
            assert reached(sources, [module])[0][test] == 1
