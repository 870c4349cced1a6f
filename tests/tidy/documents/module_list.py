"""The list of modules, docs/MODULES.md, from their docstrings.

Every room, a folder of a package, is a table: a module and the first line of its docstring. The
line of a room's own `__init__.py` stands above the table. `make docs` writes it.
"""

import ast
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import PurePosixPath

from tests.tidy.tree import PACKAGES, ROOT

LIST = ROOT / "docs/MODULES.md"
_HEAD = """\
# Modules

What each module is for: the first line of its docstring. `make docs` writes this page, so change
the docstring and not the page. [ARCHITECTURE.md](ARCHITECTURE.md) says what the rooms are and which
may import which.
"""


def first_line(source: str) -> str:
    """Return the first line of a module's docstring, empty without one."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def module_list(sources: Mapping[str, str]) -> str:
    """Return the page for these paths and sources: a table a room, packages from the ground up."""
    rooms = groupby(sorted(sources, key=_place), key=_room)
    return _HEAD + "".join("\n".join(_section(room, [*paths], sources)) for room, paths in rooms)


def _room(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def _place(path: str) -> tuple[int, str, str]:
    package = path.split("/", maxsplit=1)[0]
    return PACKAGES.index(package) if package in PACKAGES else len(PACKAGES), _room(path), path


def _section(room: str, paths: list[str], sources: Mapping[str, str]) -> Iterator[str]:
    yield f"\n## {'Beside the packages' if room == '.' else f'`{room}/`'}\n"
    if f"{room}/__init__.py" in paths:
        yield f"{first_line(sources[f'{room}/__init__.py'])}\n"
    rows = [path for path in paths if not path.endswith("/__init__.py")]
    if rows:
        yield "| module | what it is for |\n|---|---|"
        for path in rows:
            text = first_line(sources[path]).replace("|", "\\|")
            yield f"| `{PurePosixPath(path).name}` | {text} |"
        yield ""
