"""What one runs between two edits: the tests of units and of the log that a change reaches.

    python -m tests.touched -n 2          picks, runs, and says what it left out

Changed is what `git diff HEAD` names and what git does not know yet; where that is nothing, what
the last commit changed. A test file is picked if it imports a changed file, itself or by others
(tests/imports.py), the nearest first, and of those the ones in the folder of its tests. The tidy
tests always run, behind those that import it themselves; a deadline (tests/deadline.py) ends them
all. Nothing is left out without a word: the last lines say how many tests ran, how many were left
out, and which changed files no test here is of.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from tests.imports import ImportGraph

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("tests/unit", "tests/log")
TIDY: Final = "tests/tidy"
PROGRAMS: Final = "examples/"
# What runs them, by their paths.
PROGRAMS_RUN_BY: Final = "tests/example_programs.py"
PRODUCT: Final = ("storage_core", "connectors", "streaming_jobs", "typed_events")
# No test is begun later, counted from the start; the rest is for those that run then.
BEGUN_WITHIN_S: Final = 48
# More are not collected in that time.
FILES_MAX: Final = 60


def changed_files(root: Path) -> list[str]:
    """Return the files that were changed since the last commit, else those that it changed."""
    # A file that was renamed is one that is gone, too; a merge changed what it brought.
    names = ("--name-only", "--no-renames")
    changed = _git(root, "diff", *names, "HEAD")
    changed += _git(root, "ls-files", "--others", "--exclude-standard")
    return changed or _git(root, "show", *names, "--diff-merges=first-parent", "--format=", "HEAD")


def sources_of(root: Path) -> dict[str, str]:
    """Return path and source of what can be reached: the product, and the tests of FOLDERS."""
    folders = [root / folder for folder in (*PRODUCT, "tests")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    names = {path: path.relative_to(root).as_posix() for path in sorted(paths)}
    return {
        name: path.read_text(encoding="utf-8")
        for path, name in names.items()
        if not _is_test(name) or name.startswith(FOLDERS)
    }


def reached(sources: Mapping[str, str], changed: Iterable[str]) -> tuple[dict[str, int], list[str]]:
    """Return how far each test file that is reached stands, and which changed file none reaches."""
    gone = [path for path in changed if path.endswith(".py") and path not in sources]
    graph = ImportGraph(sources, gone)
    far: dict[str, int] = {}
    without = []
    for path in changed:
        files = graph.distances(modules_of(path, sources))
        tests = {name: distance for name, distance in files.items() if _is_test(name)}
        if not tests and not path.startswith(TIDY):
            without.append(path)
        for name, distance in tests.items():
            far[name] = min(distance, far.get(name, distance))
    return far, without


def modules_of(path: str, sources: Mapping[str, str]) -> list[str]:
    """Return the modules that a changed file is: itself, those that name it, else its folder's."""
    if path.startswith(PROGRAMS):
        return [PROGRAMS_RUN_BY]
    if path.endswith(".py"):
        return [path]
    naming = [name for name, source in sources.items() if PurePosixPath(path).name in source]
    if naming:
        return naming
    for folder in PurePosixPath(path).parents:
        beside = [name for name in sources if PurePosixPath(name).parent == folder]
        if beside and folder.name:
            return beside
    return []


def nearest(far: Mapping[str, int], changed: Iterable[str]) -> list[str]:
    """Return the test files as they run: of those as near, the ones in a changed file's folder."""
    rooms = {PurePosixPath(path).parent.as_posix() for path in changed}

    def rank(path: str) -> tuple[int, bool, str]:
        folder = PurePosixPath(path).parent.as_posix()
        is_apart = folder not in rooms and folder.removeprefix("tests/unit/") not in rooms
        return far[path], is_apart, path

    return sorted(far, key=rank)


class Summary:
    """Says at the end what ran, and what did not."""

    def __init__(self, left: Sequence[str], without: Sequence[str], began: float) -> None:
        """Take the files that were left out, changed ones that no test is of, and the beginning."""
        self._left, self._without, self._began = left, without, began

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print it."""
        ran = sum(
            getattr(report, "when", "") == "teardown"
            for reports in terminalreporter.stats.values()
            for report in reports
        )
        took = time.monotonic() - self._began
        folders = " and ".join(FOLDERS)
        terminalreporter.write_line(f"quick: {ran} tests of {folders} and {TIDY} in {took:.0f} s")
        for line in left_out(self._left, self._without):
            terminalreporter.write_line(line)


def left_out(left: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return what is said of what was left out."""
    lines = []
    if left:
        files = f"{len(left)} files that the change reaches, {left[0]} first"
        lines.append(f"left out: {files}; make test runs them")
    if without:
        lines.append(f"no test here is of {', '.join(without)}; make test has those")
    return lines


def main(arguments: list[str]) -> int:
    """Pick, run and report; arguments go to pytest."""
    began = time.monotonic()
    changed = changed_files(ROOT)
    sources = sources_of(ROOT)
    far, without = reached(sources, changed)
    files = nearest(far, changed)
    picked, left = files[:FILES_MAX], files[FILES_MAX:]
    closest = max(1, far[picked[0]]) if picked else 1
    near = sum(far[path] <= closest for path in picked)
    print(f"changed: {', '.join(changed)}", flush=True)  # noqa: T201 - for people
    late = ("-p", "tests.deadline", f"--begin-until={began + BEGUN_WITHIN_S}")
    return pytest.main(
        [*arguments, *late, *picked[:near], TIDY, *picked[near:]],
        plugins=[Summary(left, without, began)],
    )


def _git(root: Path, *command: str) -> list[str]:
    ran = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def _is_test(path: str) -> bool:
    return PurePosixPath(path).name.startswith("test_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
