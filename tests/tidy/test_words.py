"""Words that do not belong into the repository.

File names that say nothing, marks of unfinished work, paths of one machine. The patterns below are
spelled so that they do not find themselves.
"""

import ast
import re

import pytest

from tests.tidy.tree import files, python_files, text_files

EMPTY_NAMES = {"base.py", "common.py", "helper.py", "helpers.py", "misc.py", "util.py", "utils.py"}
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.)}\]])/(?:far[m]|hom[e]|roo[t]|User[s]|wor[k])/\w")


def empty_names(paths: list[str]) -> list[str]:
    """Return the paths whose file name says nothing about what is inside."""
    return [path for path in paths if path.rsplit("/", 1)[-1] in EMPTY_NAMES]


def unwanted_words(path: str, text: str) -> list[str]:
    """Return each line that holds a mark of unfinished work or a path of one machine."""
    return [
        f"{path}:{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if UNFINISHED.search(line) or MACHINE_PATH.search(line)
    ]


def test_file_names_say_what_is_inside() -> None:
    assert empty_names([path.as_posix() for path in files()]) == []


def test_no_text_holds_unfinished_marks_or_paths_of_one_machine() -> None:
    texts = text_files()
    assert "Makefile" in texts
    assert [line for path, text in texts.items() for line in unwanted_words(path, text)] == []


def test_empty_name_is_found() -> None:
    assert empty_names(["storage_core/utils.py", "storage_core/format/block.py"]) == [
        "storage_core/utils.py"
    ]


@pytest.mark.parametrize(
    "line", ["# to{}do: later", "fix{}me", 'PATH = "/roo{}t/x"', "see /wor{}k/y", "/hom{}e/me/z"]
)
def test_unwanted_word_is_found(line: str) -> None:
    word = line.format("")
    assert unwanted_words("a.py", word if "/" in word else word.upper())


@pytest.mark.parametrize("line", ["{root}/shard-0000/marker", "a/root/b", "homework", "todos"])
def test_harmless_word_passes(line: str) -> None:
    assert unwanted_words("a.py", line) == []


# Names that say nothing of what they hold.
SAYS_NOTHING = {
    *("one", "found", "at", "given", "what", "known", "each", "asked", "told", "shown", "there"),
    *("kept", "who", "which"),
}
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def names_that_say_nothing(tree: ast.AST) -> list[str]:
    """Return each name that is bound, says nothing, and is of no comprehension of one line."""
    if isinstance(tree, _COMPREHENSION) and tree.lineno == tree.end_lineno:
        return []
    names = []
    match tree:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            names = [name]
        case ast.arg(arg=name):
            names = [name]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            names = [name]
    inside = [name for node in ast.iter_child_nodes(tree) for name in names_that_say_nothing(node)]
    return [name for name in names if name.strip("_").lower() in SAYS_NOTHING] + inside


def test_names_say_what_they_hold() -> None:
    sources = python_files()
    assert sources
    assert {"bench/__main__.py", "demo/__main__.py", "examples/read.py"} <= {*sources}
    names = {path: names_that_say_nothing(ast.parse(text)) for path, text in sources.items()}
    # Constants and classes of tests are for their own file's readers.
    bad_names = {
        path: [name for name in bad if name.islower() or not path.startswith("tests/")]
        for path, bad in names.items()
    }
    bad_names = {path: bad for path, bad in bad_names.items() if bad}
    assert not bad_names, bad_names


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "self._kept = 1",
        "_Found = TypeVar('_Found')",
        "class _Found: pass",
        "def f(at): pass",
        "def given(): pass",
        "for one in rows:\n    pass",
        "rows = [\n    one\n    for one in rows\n]",
    ],
)
def test_name_that_says_nothing_is_found(source: str) -> None:
    assert len(names_that_say_nothing(ast.parse(source))) == 1


def test_name_in_a_comprehension_of_one_line_passes() -> None:
    assert names_that_say_nothing(ast.parse("rows = [one for one in rows]; f(lambda at: at)")) == []
