"""What the code defines, so that documents can be held to it.

`known_from` reads paths and sources into a `Known`, which answers whether a file, a name in a
file, a member of a class, a dotted name or a test exists. Nothing is imported.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.tidy.tree import Function


@dataclass(frozen=True, slots=True)
class Class:
    """A class's bases, by their last names, and what it binds itself."""

    bases: frozenset[str]
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Known:
    """A repository's paths, the names each Python file binds at its top, and the classes."""

    paths: frozenset[str]
    names: dict[str, frozenset[str]]
    classes: dict[str, Class]

    def has_path(self, path: str) -> bool:
        """Tell whether a file or folder of that path exists."""
        return path in self.paths or any(known.startswith(f"{path}/") for known in self.paths)

    def files_called(self, name: str) -> list[str]:
        """Return the paths of the files with this name."""
        return [path for path in self.paths if f"/{path}".endswith(f"/{name}")]

    def has_name(self, path: str, name: str) -> bool:
        """Tell whether that file binds `name`, or binds the class of a `Class.member`."""
        owner, _, member = name.partition(".")
        return owner in self.names.get(path, ()) and (not member or self.has_member(owner, member))

    def has_member(self, owner: str, member: str) -> bool:
        """Tell whether a class has a member; what comes from outside has every member."""
        if owner not in self.classes:
            return True
        class_ = self.classes[owner]
        return member in class_.members or any(
            self.has_member(base, member) for base in class_.bases
        )

    def has_dotted(self, name: str) -> bool:
        """Tell whether `package.module`, `package.name` or a name further down exists."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            base, rest = "/".join(parts[:length]), ".".join(parts[length:])
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if path in self.paths:
                    return not rest or self.has_name(path, rest)
        return self.has_path("/".join(parts))

    def has_test(self, name: str) -> bool:
        """Tell whether a test function, method or file of that name exists."""
        return (
            any(
                name in names or f"/{path}".endswith(f"/{name}.py")
                for path, names in self.names.items()
            )
        ) or any(name in known.members for known in self.classes.values())


def known_from(paths: list[str], sources: dict[str, str]) -> Known:
    """Return what these paths and sources define."""
    names, classes = {}, dict[str, Class]()
    # One tree at a time: the collector would walk those that are kept again and again.
    for path, source in sources.items():
        tree = ast.parse(source)
        names[path] = frozenset(_bound_in(tree.body))
        for node in _classes_in(tree):
            classes[node.name] = _merged(_class_from(node), classes.get(node.name))
    return Known(frozenset(paths), names, classes)


def _classes_in(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the classes of a tree, which no expression has."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, ())
            waiting += inner if isinstance(inner, list) else ()


def _class_from(node: ast.ClassDef) -> Class:
    bases = (ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
    return Class(frozenset(bases), frozenset((*_bound_in(node.body), *_bound_on_self(node))))


def _merged(first: Class, other: Class | None) -> Class:
    """Return two classes of one name, in different files, as one: documents name no file."""
    if other is None:
        return first
    return Class(first.bases | other.bases, first.members | other.members)


def _bound_in(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _bound_on_self(owner: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
