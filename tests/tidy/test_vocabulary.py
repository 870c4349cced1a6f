"""One meaning a word: names do not use these words, but those of the field.

A word is looked for between the underscores and capitals of a name that is bound or used, as `foot`
in `footer_summary` and `PartFoot`. Texts and comments are not looked at.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.tidy.tree import product_files, python_files

# The word, and what to say instead.
INSTEAD = {
    "catalogue": "part list",
    "feed": "partition writer",
    "feeds": "partition writers",
    "flagged": "out of order",
    "foot": "footer",
    "gathered": "collected, or pending batch",
    "gathering": "pending batch",
    "ground": "platform",
    "holdings": "assignment",
    "let_go": "delete, discard or release",
    "letter": "dead letter",
    "letters": "dead letters",
    "maker": "part builder",
    "mend": "rebuild",
    "mended": "rebuilt",
    "misfit": "mismatch",
    "overtaken": "out of range",
    "set_aside": "quarantine",
    "standing": "state",
    "standings": "states",
    "stray": "misrouted",
    "straggler": "late row",
    "stretch": "fetch result, or range",
    "stretches": "fetch results, or ranges",
    "sweep": "delete",
    "swept": "deleted",
    "upkeep": "maintenance",
    "winner": "newest version",
    "winners": "newest versions",
}
# Words that are right in these places alone, and what to say elsewhere.
ONLY_IN = {
    "seal": (
        "flush, for blocks",
        (
            *("storage_core/tiering/", "storage_core/stream", "storage_core/__init__.py"),
            *("storage_core/catalog/options.py", "connectors/ingest/maintenance_timer.py"),
            *("connectors/settings/stream_settings.py", "connectors/settings/idle_settings.py"),
            "connectors/cli/",
            *("bench/", "demo/", "examples/"),
        ),
    ),
    # A fixed rate at which something is produced.
    "pace": ("fetch policy", ("bench/",)),
}


def names_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield each name that a file binds or uses, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.lineno, name


@cache
def words_in(name: str) -> str:
    """Return a name as words between underscores."""
    words = re.sub("([a-z0-9])([A-Z])", r"\1_\2", name)
    return f"_{words.lower().strip('_')}_"


def wrong_words(path: str, source: str) -> list[str]:
    """Return the names of a file that have a word of another meaning."""
    instead = INSTEAD | {
        word: other for word, (other, places) in ONLY_IN.items() if not path.startswith(places)
    }
    word_in = re.compile(f"(?<!_dead)_({'|'.join(instead)})(?=_)")
    return [
        f"{path}:{line}: {name}: {instead[word]}, not {word}"
        for line, name in names_of(source)
        for word in word_in.findall(words_in(name))
    ]


def test_names_use_a_word_in_its_one_meaning() -> None:
    sources = product_files() | python_files("bench", "demo", "examples")
    assert {"bench/__main__.py", "demo/__main__.py", "examples/read.py"} <= {*sources}
    assert [line for path, text in sources.items() for line in wrong_words(path, text)] == []


def test_dead_letter_is_no_letter() -> None:
    assert wrong_words("connectors/dlq/a.py", "dead_letters = DeadLetter()") == []
    assert len(wrong_words("connectors/dlq/a.py", "letters = _Letter()")) == 2


def test_no_word_is_in_two_lists() -> None:
    assert not {*INSTEAD} & {*ONLY_IN}


@pytest.mark.parametrize(
    "source",
    ["stray = 1", "x.stray_rows()", "class StrayRows: pass", "def f(stray): pass", "f(stray=1)"],
)
def test_word_of_another_meaning_is_found(source: str) -> None:
    (complaint,) = wrong_words("storage_core/read/a.py", source)
    assert complaint.endswith(": misrouted, not stray")


def test_word_that_has_its_place_is_found_elsewhere() -> None:
    assert wrong_words("storage_core/tiering/seal.py", "def seal_shard(): pass") == []
    assert len(wrong_words("storage_core/write/builder.py", "def seal_block(): pass")) == 1


@pytest.mark.parametrize("source", ['x = "stray"', "astray = 1"])
def test_other_words_and_texts_pass(source: str) -> None:
    assert wrong_words("storage_core/read/a.py", source) == []
