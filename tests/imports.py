"""Who imports whom, in the product and in the tests, and how far a test stands from a file.

An edge is an import, wherever in a file it stands, or a module named in a text, as scripts of child
processes and lazy imports have it: `"from storage_core.engine import rocks"`, or
`"connectors.cli."` for all that begins so. A name taken from a package's export list leads to the
module that defines it, so that who takes one public name does not reach all of them. A test stands
on the conftest.py of its folder and of those above it.
"""

import ast
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

# Behind a module's name: its export list alone, without what it imports for it.
_LIST = "!"
# In texts. Tests that are named there are for pytest, which loads nothing for it.
_NAMED = re.compile(r"\b(?:storage_core|connectors|streaming_jobs)(?:\.\w+)*\.?")


def module_of(path: str) -> str:
    """Return the dotted name under which a file is imported."""
    name = PurePosixPath(path).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


class Imports(NamedTuple):
    """What a file imports, as it says it.

    Attributes:
        taken: Modules, each with a name that is taken from it; none where it is imported whole.
        named: What texts name that begins as a module does.
        exports: Of each name that it has from another module, which.
    """

    taken: list[list[str]]
    named: list[str]
    exports: dict[str, str]


def imports_of(source: str, path: str = "<source>") -> Imports:
    """Return what a source imports; its path is for who has made it no Python."""
    imports = Imports([], [], {})
    for node in _running(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            imports.taken.extend([alias.name, ""] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.taken.extend([node.module, alias.name] for alias in node.names)
            imports.exports.update((alias.name, node.module) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            imports.named.extend(_NAMED.findall(node.value))
        elif isinstance(node, ast.Dict):
            # A table of names that are imported once somebody asks for one.
            for key, value in zip(node.keys, node.values, strict=True):
                match key, value:
                    case ast.Constant(value=str(name)), ast.Constant(value=str(module)):
                        imports.exports[name] = module
    return imports


def read_cache(file: Path) -> dict[str, Any]:
    """Return what a run has cached; nothing where none has, or its last one was cut off."""
    try:
        return dict(json.loads(file.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def cached_imports(sources: Mapping[str, str], cache_file: Path) -> dict[str, Imports]:
    """Return what sources import, from a cache where they are as they were."""
    cache = read_cache(cache_file)
    # What another version of this file imports counts for nothing.
    key = blake2b(Path(__file__).read_bytes(), digest_size=32).digest()
    digests = {one: blake2b(text.encode(), key=key).hexdigest() for one, text in sources.items()}
    imports = {
        path: Imports(*cache[digests[path]]) if digests[path] in cache else imports_of(source, path)
        for path, source in sources.items()
    }
    cache_file.parent.mkdir(parents=True, exist_ok=True)
    cache_file.write_text(json.dumps({digests[path]: one for path, one in imports.items()}))
    return imports


class ImportGraph:
    """Which files reach which, given what each imports."""

    def __init__(self, imports: Mapping[str, Imports], gone: Iterable[str] = ()) -> None:
        """Take all there are; `gone` are files that some may still import."""
        self._paths = {module_of(path): path for path in imports}
        self._modules = {*self._paths, *map(module_of, gone)}
        self._exports = {
            module: imports[path].exports
            for module, path in self._paths.items()
            if path.endswith("__init__.py")
        }
        self._importers: dict[str, set[str]] = {}
        for module, path in self._paths.items():
            for imported in self._reached(module, imports[path]):
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

    def _reached(self, module: str, imports: Imports) -> Iterator[str]:
        for taken, name in imports.taken:
            yield from self._taken(taken, name)
        for text in imports.named:
            yield from self._named(text)
        yield from _conftests(module)

    def _taken(self, module: str, name: str) -> Iterator[str]:
        """Yield what `from module import name` reaches."""
        if f"{module}.{name}" in self._modules:
            yield f"{module}.{name}"
        elif name in self._exports.get(module, ()):
            yield module + _LIST
            yield from self._taken(self._exports[module][name], name)
        else:
            yield module

    def _named(self, name: str) -> Iterator[str]:
        """Yield the modules that a text names."""
        if name.endswith(".") and name[:-1] in self._exports:
            yield from (one for one in self._modules if one.startswith(name))
            return
        names = name.strip(".").split(".")
        longest = (".".join(names[:end]) for end in range(len(names), 1, -1))
        yield from islice((one for one in longest if one in self._modules), 1)


def _conftests(module: str) -> Iterator[str]:
    """Yield the fixtures that pytest lends a test."""
    folder = module.rpartition(".")[0]
    while folder and module.rpartition(".")[2].startswith("test_"):
        yield f"{folder}.conftest"
        folder = folder.rpartition(".")[0]


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
