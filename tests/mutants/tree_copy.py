"""A copy of a tree, in which one line at a time is made wrong and tests are run.

The copy has the tree's `.venv` by a link, and stands before it where Python looks for modules, so
that all processes of a test import what lies in the copy. Compiled modules are thrown away when
their source changes: by time and size alone a line put back within a second would not be seen.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants import watching
from tests.mutants.mutant import Mutant

_LEFT_OUT: Final = (
    *(".git", ".venv", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    *("__pycache__", "build", "dist", "spark-warehouse"),
)
_PLUGIN: Final = "mutant_watching"
_OPTIONS: Final = ("-q", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider")
# So long a test may take that waits out all its deadlines.
_RUN_MAX_S: Final = 900
_IMPORT_MAX_S: Final = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a phase of a test, or of collecting it."""

    test: str
    phase: str
    outcome: str
    why: str = ""

    @property
    def has_failed_itself(self) -> bool:
        """Tell whether the body of a test has failed."""
        return self.outcome == "failed" and self.phase == "call"


class TreeCopy:
    """A copy, for one thread."""

    def __init__(self, tree: Path, place: Path) -> None:
        """Copy a tree to a place that is not there yet."""
        self.root = place
        shutil.copytree(tree, place, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        shutil.copyfile(watching.__file__, place / f"{_PLUGIN}.py")
        self._python = sys.executable
        if (tree / ".venv").exists():
            (place / ".venv").symlink_to(tree / ".venv")
            self._python = str(place / ".venv/bin/python")

    @contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        """Have a bug in the copy inside.

        Raises:
            MisplacedError: Its line is not there exactly once.
        """
        path = self.root / mutant.file
        right = path.read_text()
        wrong = mutant.put_into(right)
        try:
            _put(path, wrong)
            yield
        finally:
            _put(path, right)

    def why_not_imported(self, module: str) -> str | None:
        """Say why a module cannot be imported from the copy; None if it is."""
        # A package may have a function of the module's name.
        code = f"import importlib; print(importlib.import_module({module!r}).__file__)"
        done = subprocess.run(
            [self._python, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            timeout=_IMPORT_MAX_S,
            cwd="/",
            env=self._environment(),
        )
        if done.returncode:
            return f"it cannot be imported: {_last_line(done.stderr)}"
        place = done.stdout.strip()
        is_here = Path(place).resolve().is_relative_to(self.root.resolve())
        return None if is_here else f"what is imported lies elsewhere: {place}"

    def run(self, tests: Sequence[str], options: Iterable[str] = ()) -> list[Outcome]:
        """Run tests, and return what became of them; one that does not end has no outcome."""
        report = self.root / "mutant-report.jsonl"
        report.unlink(missing_ok=True)
        command = [self._python, "-m", "pytest", *_OPTIONS, "-p", _PLUGIN, *options]
        try:
            subprocess.run(
                [*command, "--hypothesis-seed=0", *tests],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=_RUN_MAX_S,
                cwd=self.root,
                env={**self._environment(), watching.REPORT: str(report)},
            )
        except subprocess.TimeoutExpired:
            return []
        lines = report.read_text().splitlines() if report.exists() else []
        return [Outcome(**json.loads(line)) for line in lines]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root)}


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]
