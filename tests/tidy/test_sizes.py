"""Files of more than 500 lines and functions of more than 70 fail; there is no exemption list.

So do files of C, and lines of theirs above 100 characters; ruff has those of Python. So do folders
of more than 20 Python files; those that had more are listed, and may only shrink.

A function is measured without its docstring: contracts may be long, mechanics may not.
"""

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.tidy.tree import Function, c_files, python_files

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LINE_CHARACTERS_MAX = 100
FOLDER_FILES_MAX = 20


def oversized(path: str, source: str) -> list[str]:
    """Return what is too long in a file."""
    complaints = []
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        complaints.append(f"{path}: {lines} lines, at most {FILE_LINES_MAX}")
    if lines <= FUNCTION_LINES_MAX:
        return complaints
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    return complaints + [
        f"{path}:{node.lineno}: {node.name} has {function_lines(node)} lines, "
        f"at most {FUNCTION_LINES_MAX} without its docstring"
        for node in functions
        if function_lines(node) > FUNCTION_LINES_MAX
    ]


def oversized_c(path: str, source: str) -> list[str]:
    """Return what is too long in a file of C."""
    lines = source.splitlines()
    complaints = []
    if len(lines) > FILE_LINES_MAX:
        complaints.append(f"{path}: {len(lines)} lines, at most {FILE_LINES_MAX}")
    return complaints + [
        f"{path}:{number}: {len(line)} characters, at most {LINE_CHARACTERS_MAX}"
        for number, line in enumerate(lines, 1)
        if len(line) > LINE_CHARACTERS_MAX
    ]


def overfull(paths: Iterable[str]) -> list[str]:
    """Return the folders with too many Python files."""
    counts = Counter(PurePosixPath(path).parent.as_posix() for path in paths)
    return [
        f"{folder}: {count} Python files, at most {FOLDER_FILES_MAX}"
        for folder, count in sorted(counts.items())
        if count > FOLDER_FILES_MAX
    ]


def function_lines(node: Function) -> int:
    """Return the lines of a function without decorators and docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def function_of(lines: int, docstring_lines: int = 0) -> str:
    """Return the source of a function of so many lines beside its docstring."""
    docstring = ['    """Say.', *[""] * (docstring_lines - 2), '    """'] if docstring_lines else []
    return "\n".join(["def long():", *docstring, *["    x = 1"] * (lines - 1)])


def test_no_file_and_no_function_is_too_long() -> None:
    sources = python_files()
    assert sources
    assert [line for path, source in sources.items() for line in oversized(path, source)] == []


def test_no_folder_has_too_many_files() -> None:
    assert overfull(python_files()) == []


def test_folder_above_the_limit_is_found() -> None:
    paths = [f"a/b/{number}.py" for number in range(FOLDER_FILES_MAX)]
    assert overfull([*paths, "a/c.py"]) == []
    assert overfull([*paths, "a/b/c.py"]) == ["a/b: 21 Python files, at most 20"]


def test_no_file_and_no_line_of_c_is_too_long() -> None:
    sources = c_files()
    assert sources
    assert [line for path, source in sources.items() for line in oversized_c(path, source)] == []


def test_c_above_the_limits_is_found() -> None:
    assert oversized_c("a.c", "x" * LINE_CHARACTERS_MAX + "\n") == []
    assert oversized_c("a.c", "x" * 101) == ["a.c:1: 101 characters, at most 100"]
    assert oversized_c("a.c", "x\n" * 501) == ["a.c: 501 lines, at most 500"]


def test_file_above_the_limit_is_found() -> None:
    assert oversized("a.py", "x = 1\n" * FILE_LINES_MAX) == []
    assert oversized("a.py", "x = 1\n" * (FILE_LINES_MAX + 1)) == ["a.py: 501 lines, at most 500"]


def test_function_above_the_limit_is_found_even_inside_a_class() -> None:
    long = function_of(FUNCTION_LINES_MAX + 1)
    inside = "class A:\n" + "\n".join("    " + line for line in long.splitlines())
    assert oversized("a.py", function_of(FUNCTION_LINES_MAX)) == []
    assert len(oversized("a.py", long)) == 1
    assert len(oversized("a.py", inside)) == 1


def test_docstring_does_not_count() -> None:
    assert oversized("a.py", function_of(FUNCTION_LINES_MAX, docstring_lines=50)) == []
    assert len(oversized("a.py", function_of(FUNCTION_LINES_MAX + 1, docstring_lines=50))) == 1
