"""Documents name only what exists.

README.md and docs/*.md are held to the code: every path, every `file.py:function`, every dotted
name of our packages, every member of our classes and every test they name is there, and every
relative link and its anchor lead somewhere. ADRs are history and may name what is gone, but each is
linked from a document that people read.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from tests.tidy.known_names import Known, known_from
from tests.tidy.tree import PACKAGES, ROOT, files, python_files, text_of

PROMISED = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/COMMANDS.md",
    "docs/CONFIGURATION.md",
    "docs/DEAD_LETTERS.md",
    "docs/FAILURES.md",
    "docs/FORMAT.md",
    "docs/GLOSSARY.md",
    "docs/GUARANTEES.md",
    "docs/LIMITS.md",
    "docs/METRICS.md",
    "docs/MODULES.md",
    "docs/OPERATIONS.md",
    "docs/PYTHON.md",
    "docs/SCHEMAS.md",
    "docs/SPARK.md",
    "docs/TESTING.md",
    "examples/README.md",
]
_TOP = "|".join([*PACKAGES, r"\.ci", "bench", "demo", "docs", "examples", "schemas", "tests"])
_IN_FILE = r"(?::{1,2}([A-Za-z_][\w.]*\w))?"
PATH = re.compile(rf"(?<![\w./-])((?:{_TOP})(?:/[\w.-]*\w)+)/?{_IN_FILE}(?![\w*<{{])")
FILE = re.compile(rf"(?<![\w./*-])(\w+\.py)\b{_IN_FILE}")
DOTTED = re.compile(rf"(?<![\w./-])((?:{'|'.join(PACKAGES)}|tests|bench)(?:\.[A-Za-z_]\w*)+)")
MEMBER = re.compile(r"(?<![\w./])([A-Z]\w+)\.([a-z_]\w*)")
TEST = re.compile(r"(?<![\w./])(test_\w+)\b(?!\.py|\*)")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def unknown_names(text: str, names_there: Known) -> list[str]:
    """Return what a document names and the repository lacks."""
    unknown = []
    for path, name in PATH.findall(text):
        if not names_there.has_path(path):
            unknown.append(path)
        elif name and not names_there.has_name(path, name):
            unknown.append(f"{path}:{name}")
    for file, name in FILE.findall(text):
        paths = names_there.files_called(file)
        if not paths:
            unknown.append(file)
        elif name and not any(names_there.has_name(path, name) for path in paths):
            unknown.append(f"{file}:{name}")
    unknown += [name for name in DOTTED.findall(text) if not names_there.has_dotted(name)]
    unknown += [
        f"{owner}.{member}"
        for owner, member in MEMBER.findall(text)
        if not names_there.has_member(owner, member)
    ]
    return unknown + [name for name in TEST.findall(text) if not names_there.has_test(name)]


def broken_links(document: str, text: str, names_there: Known) -> list[str]:
    """Return the relative links of a document that lead nowhere."""
    folder = PurePosixPath(document).parent
    return [
        f"{document}: {target}"
        for target, _ in LINK.findall(text)
        if target and not names_there.has_path(_normal(folder / target))
    ]


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found_anchors = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        text_of_heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w -]", "", text_of_heading).strip().lower().replace(" ", "-")
        found_anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found_anchors


def broken_anchors(document: str, texts: Mapping[str, str]) -> list[str]:
    """Return the links of a document whose anchor is no heading of the page they lead to."""
    folder = PurePosixPath(document).parent
    return [
        f"{document}: {target}#{anchor}"
        for target, anchor in LINK.findall(texts[document])
        if anchor
        and (path := _normal(folder / target) if target else document) in texts
        and anchor not in anchors(texts[path])
    ]


def unlinked(records: list[str], texts: dict[str, str]) -> list[str]:
    """Return the decision records whose file name no document mentions."""
    written = "\n".join(texts.values())
    return [record for record in records if PurePosixPath(record).name not in written]


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts[-1:] = []
        else:
            parts.append(part)
    return "/".join(parts)


def _documents() -> dict[str, str]:
    paths = [path for path in files() if path.name == "README.md" or path.parent.name == "docs"]
    return {
        path.as_posix(): (ROOT / path).read_text(encoding="utf-8")
        for path in paths
        if path.suffix == ".md"
    }


def _paths() -> list[str]:
    return [path.as_posix() for path in files()]


@pytest.mark.parametrize("document", PROMISED)
def test_promised_document_is_there(document: str) -> None:
    assert (ROOT / document).is_file()


def test_documents_name_only_what_exists() -> None:
    names_there = known_from(_paths(), python_files())
    complaints = {path: unknown_names(text, names_there) for path, text in _documents().items()}
    assert {path: names for path, names in complaints.items() if names} == {}


def test_links_of_documents_lead_somewhere() -> None:
    documents, names_there = _documents().items(), known_from(_paths(), {})
    assert [
        link for path, text in documents for link in broken_links(path, text, names_there)
    ] == []


def test_anchors_of_links_are_headings() -> None:
    texts = {
        path.as_posix(): text_of(path)
        for path in files()
        if path.suffix == ".md" and path.parts[0] != "tests"
    }
    assert [link for path in texts for link in broken_anchors(path, texts)] == []


def test_every_decision_record_is_linked() -> None:
    records = [path.as_posix() for path in files() if path.parts[:2] == ("docs", "adr")]
    assert unlinked([path for path in records if path[9].isdigit()], _documents()) == []


SMALL = known_from(
    [
        "README.md",
        "docs/FORMAT.md",
        "storage_core/__init__.py",
        "storage_core/shard.py",
        "tests/unit/test_shard.py",
    ],
    {
        "storage_core/__init__.py": "from storage_core.shard import Shard",
        "storage_core/shard.py": "LIMIT = 1\ndef seal(): ...\n"
        "class Log:\n    def scan(self): self.rows = 0\n"
        "class Shard(Log):\n    def commit(self): ...",
        "tests/unit/test_shard.py": "def test_rows_last(): ...",
    },
)


@pytest.mark.parametrize(
    "text",
    [
        "see `storage_core/shard.py` and `storage_core/shard.py:Shard.commit`.",
        "`shard.py:seal` of `storage_core/`, in docs/FORMAT.md. The tests/unit folder.",
        "`storage_core.shard.Shard.commit(x)`, `storage_core.Shard`, storage_core.Shard.commit",
        "`storage_core.shard.LIMIT`, `Shard.commit()`, `Shard.rows`, `T.take`, `tests/test_*.py`",
        "`test_rows_last` is tests/unit/test_shard.py::test_rows_last; import storage_core.",
        "shards are kept as `<root>/<stream>/shard-0000/marker` and `stream.json`",
    ],
)
def test_document_that_names_what_exists_passes(text: str) -> None:
    assert unknown_names(text, SMALL) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`storage_core/gone.py`", "storage_core/gone.py"),
        ("in docs/GONE.md.", "docs/GONE.md"),
        ("`storage_core/shard.py:gone`", "storage_core/shard.py:gone"),
        ("`storage_core/shard.py:Shard.gone`", "storage_core/shard.py:Shard.gone"),
        ("`shard.py:gone`", "shard.py:gone"),
        ("`gone.py`", "gone.py"),
        ("`storage_core.shard.gone`", "storage_core.shard.gone"),
        ("`storage_core.gone.Shard`", "storage_core.gone.Shard"),
        ("`storage_core.Gone`", "storage_core.Gone"),
        ("`Shard.gone()`", "Shard.gone"),
        ("`test_gone`", "test_gone"),
        ("`tests/unit/test_shard.py::test_gone`", "tests/unit/test_shard.py:test_gone"),
    ],
)
def test_name_of_nothing_is_found(text: str, unknown: str) -> None:
    assert unknown in unknown_names(text, SMALL)


def test_broken_link_is_found() -> None:
    text = "[a](../README.md) [b](FORMAT.md#keys) [c](https://a.example/x) [d](GONE.md)"
    assert broken_links("docs/TESTING.md", text, SMALL) == ["docs/TESTING.md: GONE.md"]


def test_broken_anchor_is_found() -> None:
    texts = {
        "docs/A.md": "# `--a` and: b\n\n## B\n```sh\n# c\n```\n## B\n"
        "[x](#b-1) [y](#c) [z](../R.md#d)",
        "R.md": "[a](docs/A.md#--a-and-b) [b](docs/A.md#b) [c](https://a.example/#x)",
    }
    assert broken_anchors("docs/A.md", texts) == ["docs/A.md: #c", "docs/A.md: ../R.md#d"]
    assert broken_anchors("R.md", texts) == []


def test_unlinked_decision_record_is_found() -> None:
    texts = {"docs/ARCHITECTURE.md": "[why](adr/0001-blocks.md)"}
    records = ["docs/adr/0001-blocks.md", "docs/adr/0002-zones.md"]
    assert unlinked(records, texts) == ["docs/adr/0002-zones.md"]
