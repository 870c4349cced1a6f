"""The repository's own files, as the tidy tests see them.

Only what belongs to the repository is listed: known folders and the files at the top, never
environments, caches or what a test left behind.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("storage_core", "connectors", "streaming_jobs", "typed_events")
FOLDERS = (*PACKAGES, ".ci", "bench", "demo", "deploy", "docs", "examples", "schemas", "tests")
TEXT_SUFFIXES = {"", ".avsc", ".c", ".h", ".json", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files() -> list[Path]:
    """Return every file of the repository, relative to its root."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(path.relative_to(ROOT) for path in paths if "__pycache__" not in path.parts)


@cache
def text_of(path: Path) -> str:
    """Return what a file of the repository says."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def python_files(*folders: str) -> dict[str, str]:
    """Return path and source of the Python files in these folders, or of all."""
    return {
        path.as_posix(): text_of(path)
        for path in files()
        if path.suffix == ".py" and (not folders or path.parts[0] in folders)
    }


def c_files() -> dict[str, str]:
    """Return path and source of what is written in C."""
    return {path.as_posix(): text_of(path) for path in files() if path.suffix in {".c", ".h"}}


def product_files() -> dict[str, str]:
    """Return path and source of what is shipped."""
    return {
        path: source
        for path, source in python_files().items()
        if path.startswith(PACKAGES) or path == "pyspark_shardlog.py"
    }


def text_files() -> dict[str, str]:
    """Return path and text of what people write, the licence and golden stores left out."""
    return {
        path.as_posix(): text_of(path)
        for path in files()
        if path.suffix in TEXT_SUFFIXES
        and path.name != "LICENSE"
        and path.parts[:2] != ("tests", "golden")
    }
