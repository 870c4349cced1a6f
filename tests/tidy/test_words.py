"""Words that do not belong into the repository.

File names that say nothing, marks of unfinished work, paths of one machine. The patterns below are
spelled so that they do not find themselves.
"""

import re

import pytest

from tests.tidy.tree import files, text_files

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
