"""Numbered steps: those of a docstring, and the same ones in a document.

A document has them below the line "Steps of `path:function`:"; without a function they are the
module's. `make docs` writes them anew.
"""

import ast
import re
from collections.abc import Callable

from tests.tidy.tree import ROOT

STEPS_OF = re.compile(r"^Steps of `([^`]+)`:\n\n((?:.+\n)+)", re.MULTILINE)


def node_of(place: str) -> ast.Module | ast.FunctionDef:
    """Return the function, or the module, of a place."""
    path, _, name = place.partition(":")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    if not name:
        return tree
    function = name.rpartition(".")[2]
    return next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
    )


def numbered(docstring: str) -> str:
    """Return the paragraph of a docstring that begins with step 1."""
    return next(one for one in docstring.split("\n\n") if one.startswith("1. "))


def steps_in_code(place: str) -> str:
    """Return the steps that the docstring of a place numbers."""
    return numbered(ast.get_docstring(node_of(place)) or "")


def with_steps(page: str, steps_at: Callable[[str], str] = steps_in_code) -> str:
    """Return a document with the steps of each place that it names as they are there."""
    return STEPS_OF.sub(lambda m: f"Steps of `{m[1]}`:\n\n{steps_at(m[1])}\n", page)
