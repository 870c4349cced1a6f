"""Who imports whom, in the product and in the tests, and how far a test stands from a file.

An edge is an import, wherever in a file it stands, or a module named in a text, as scripts of child
processes and lazy imports have it: `"from storage_core.store import rocks"`, or `"connectors.cli."`
for all that begins so. A name taken from a package's export list leads to the module that defines
it, so that who takes one public name does not reach all of them. A test stands on the conftest.py
of its folder and of those above it.
"""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath

# Behind a module's name: its export list alone, without what it imports for it.
_LIST = "!"
# In texts. Tests that are named there are for pytest, which loads nothing for it.
_NAMED = re.compile(r"\b(?:storage_core|connectors|streaming_jobs)(?:\.\w+)*\.?")


def module_of(path: str) -> str:
    """Return the dotted name under which a file is imported."""
    name = PurePosixPath(path).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


class ImportGraph:
    """The imports of Python files, given by path and source."""

    def __init__(self, sources: Mapping[str, str], gone: Iterable[str] = ()) -> None:
        """Read all sources; `gone` are files that some may still import."""
        self._paths = {module_of(path): path for path in sources}
        self._known = {*self._paths, *map(module_of, gone)}
        trees = {module_of(path): ast.parse(source) for path, source in sources.items()}
        self._exports = {
            module: dict(_exports(trees[module]))
            for module, path in self._paths.items()
            if path.endswith("__init__.py")
        }
        self._importers: dict[str, set[str]] = {}
        for module, tree in trees.items():
            for imported in self._imported(module, tree):
                self._importers.setdefault(imported, set()).add(module)

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Return the files that reach a changed one, each with the imports that lie between."""
        found = {module_of(path): 0 for path in changed}
        found |= {module + _LIST: 0 for module in found}
        waiting = deque(found)
        while waiting:
            module = waiting.popleft()
            for importer in self._importers.get(module, ()):
                if importer not in found:
                    found[importer] = found[module] + 1
                    waiting.append(importer)
        return {self._paths[one]: far for one, far in found.items() if one in self._paths}

    def _imported(self, module: str, tree: ast.Module) -> Iterator[str]:
        yield from self._conftests(module)
        for node in _running(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield from self._taken(node.module, alias.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._named(node.value)

    def _taken(self, module: str, name: str) -> Iterator[str]:
        """Yield what `from module import name` reaches."""
        if f"{module}.{name}" in self._known:
            yield f"{module}.{name}"
        elif name in self._exports.get(module, ()):
            yield module + _LIST
            yield from self._taken(*self._exports[module][name])
        else:
            yield module

    def _named(self, text: str) -> Iterator[str]:
        """Yield the modules that a text names."""
        for name in _NAMED.findall(text):
            if name.endswith(".") and name[:-1] in self._exports:
                yield from (one for one in self._known if one.startswith(name))
                continue
            names = name.strip(".").split(".")
            longest = (".".join(names[:end]) for end in range(len(names), 1, -1))
            yield from islice((one for one in longest if one in self._known), 1)

    def _conftests(self, module: str) -> Iterator[str]:
        """Yield the fixtures that pytest lends a test."""
        folder = module.rpartition(".")[0]
        while folder and module.rpartition(".")[2].startswith("test_"):
            yield f"{folder}.conftest"
            folder = folder.rpartition(".")[0]


def _exports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the names that a package has from its modules: imported, or by a table of both."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                match key, value:
                    case ast.Constant(value=str(name)), ast.Constant(value=str(module)):
                        yield name, (module, name)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, without texts that stand alone and what type checkers import."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
