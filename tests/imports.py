"""Who imports whom, in the product and in the tests, and how far a test stands from a file.

An edge is an import, wherever in a file it stands, or a module that the file names, as scripts of
child processes and lazy imports have it: `"connectors.cli."` names all that begins so. A name taken
from a package's export list leads to the module that defines it, so that who takes one public name
does not reach all of them. A test stands on the conftest.py of its folder and of those above it.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

_PACKAGES = "storage_core|connectors|streaming_jobs"
_FROM = re.compile(rf"\bfrom ((?:{_PACKAGES}|tests)[\w.]*) import (\([^)]*\)|[^\n]+)")
_NAMED = re.compile(rf"\b(?:{_PACKAGES})(?:\.\w+)+\.?")
_IMPORT = re.compile(r"^\s*import (tests[\w.]*)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
# Behind a module's name: its export list alone, without what it imports for it.
_LIST = "!"


def module_of(path: str) -> str:
    """Return the dotted name under which a file is imported."""
    name = PurePosixPath(path).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


class ImportGraph:
    """Which files reach which, by their sources."""

    def __init__(self, sources: Mapping[str, str], gone: Iterable[str] = ()) -> None:
        """Take all there are; `gone` are files that some may still import."""
        self._paths = {module_of(path): path for path in sources}
        self._modules = {*self._paths, *map(module_of, gone)}
        self._exports = {
            module: {name: origin for origin, name in _taken(sources[path])}
            for module, path in self._paths.items()
            if path.endswith("__init__.py")
        }
        self._importers: dict[str, set[str]] = {}
        for module, path in self._paths.items():
            for imported in self._reached(module, sources[path]):
                self._importers.setdefault(imported, set()).add(module)

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Return the files that reach a changed one, each with the imports that lie between."""
        distances = {module_of(path): 0 for path in changed}
        distances |= {module + _LIST: 0 for module in distances}
        waiting = deque(distances)
        while waiting:
            module = waiting.popleft()
            for importer in self._importers.get(module, ()):
                if importer not in distances:
                    distances[importer] = distances[module] + 1
                    waiting.append(importer)
        return {self._paths[one]: far for one, far in distances.items() if one in self._paths}

    def _reached(self, module: str, source: str) -> Iterator[str]:
        # A package that loads its names on demand imports them for type checkers alone.
        taken = () if "lazy_exports(" in source else _taken(source)
        for origin, name in taken:
            yield from self._origin(origin, name)
        for text in (*_IMPORT.findall(source), *_NAMED.findall(_FROM.sub("", source))):
            names = text.strip(".").split(".")
            longest = (".".join(names[:end]) for end in range(len(names), 1, -1))
            named = next((one for one in longest if one in self._modules), None)
            if text.endswith(".") and named in self._exports:
                yield from (one for one in self._modules if one.startswith(text))
            elif named is not None:
                yield named
        yield from _conftests(module)

    def _origin(self, module: str, name: str) -> Iterator[str]:
        """Yield what `from module import name` reaches."""
        if f"{module}.{name}" in self._modules:
            yield f"{module}.{name}"
        elif name in self._exports.get(module, ()):
            yield module + _LIST
            yield from self._origin(self._exports[module][name], name)
        else:
            yield module


def _taken(source: str) -> Iterator[tuple[str, str]]:
    """Yield each module and name that a source takes from it."""
    for module, names in _FROM.findall(source):
        for name in _COMMENT.sub("", names).strip("() \n").split(","):
            if name.strip():
                yield module, name.split()[0]


def _conftests(module: str) -> Iterator[str]:
    """Yield the fixtures that pytest lends a test."""
    folder = module.rpartition(".")[0]
    while folder and module.rpartition(".")[2].startswith("test_"):
        yield f"{folder}.conftest"
        folder = folder.rpartition(".")[0]
