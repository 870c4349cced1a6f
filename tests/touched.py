"""What one runs between two edits: the tests of units and of the log that a change reaches.

    python -m tests.touched -n 2          picks, runs, and says what it left out

Changed is what `git diff HEAD` names and what git does not know yet; where that is nothing, what
the last commit changed. A test file is picked if it imports a changed file, itself or by others
(tests/imports.py), the nearest first and of those the cheapest, as long as their known times fit.
The tidy tests always run, behind those that import it themselves. Nothing is left out without a
word: the last lines say how many tests of how many ran, which were left out, and which changed
files no test here is of.

What a test takes of a processor is known from earlier runs in this checkout (tests/times.py), else
guessed by the number of its functions; a deadline (tests/deadline.py) ends what was guessed wrong.
"""

import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from tests.imports import ImportGraph, Imports, cached_imports, read_cache
from tests.times import PROCESSOR_TIMES

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("tests/unit", "tests/log")
TIDY: Final = "tests/tidy"
PROGRAMS: Final = "examples/"
# What runs them, by their paths.
PROGRAMS_RUN_BY: Final = "tests/example_programs.py"
PRODUCT: Final = ("storage_core", "connectors", "streaming_jobs")
# No test is begun later, counted from the start; the rest is for those that run then.
BEGUN_WITHIN_S: Final = 48
# Of it, what goes to the start of the processes and to collecting.
START_S: Final = 8
# Where nothing is known: of each function of a test.
_GUESS_S: Final = {"tests/unit": 0.1, "tests/log": 0.3}


@dataclass(frozen=True, slots=True)
class Cost:
    """How many tests a file has, and what they take of a processor."""

    tests: int
    seconds: float
    is_known: bool = True


@dataclass(slots=True)
class Choice:
    """What is run of what a change reaches."""

    picked: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    # Changed files that no test of these folders is of.
    without: list[str] = field(default_factory=list)


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


def reached(
    sources: Mapping[str, str], changed: Iterable[str], imports: Mapping[str, Imports]
) -> tuple[dict[str, int], list[str]]:
    """Return how far each test file that is reached stands, and which changed file none reaches."""
    gone = [path for path in changed if path.endswith(".py") and path not in sources]
    graph = ImportGraph(imports, gone)
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


def choose(
    far: Mapping[str, int], costs: Mapping[str, Cost], changed: Iterable[str], budget_s: float
) -> Choice:
    """Pick the nearest first, of those the ones in a changed file's folder, then the cheapest."""
    rooms = {PurePosixPath(path).parent.as_posix() for path in changed}

    def rank(path: str) -> tuple[int, bool, float, str]:
        folder = PurePosixPath(path).parent.as_posix()
        is_apart = folder not in rooms and folder.removeprefix("tests/unit/") not in rooms
        return far[path], is_apart, costs[path].seconds, path

    choice = Choice()
    for path in sorted(far, key=rank):
        fits = costs[path].seconds <= budget_s
        budget_s -= costs[path].seconds if fits else 0
        (choice.picked if fits else choice.left).append(path)
    return choice


def costs_of(sources: Mapping[str, str], processor_s: Mapping[str, float]) -> dict[str, Cost]:
    """Return what the tests of each file take."""
    times: dict[str, list[float]] = defaultdict(list)
    for test, seconds in processor_s.items():
        times[test.partition("::")[0]].append(seconds)
    return {
        path: Cost(len(times[path]), sum(times[path])) if path in times else _guess(path, source)
        for path, source in sources.items()
        if _is_test(path)
    }


class Summary:
    """Says at the end what ran, and what did not."""

    def __init__(self, choice: Choice, costs: Mapping[str, Cost], began: float) -> None:
        """Take what was chosen, and when it began."""
        self._choice, self._costs, self._began = choice, costs, began

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print it."""
        stats = terminalreporter.stats
        ran = sum(
            getattr(report, "when", "") == "teardown"
            for reports in stats.values()
            for report in reports
        )
        took = time.monotonic() - self._began
        about = "" if all(one.is_known for one in self._costs.values()) else "about "
        total = sum(one.tests for one in self._costs.values())
        folders = " and ".join(FOLDERS)
        of_all = f"of {about}{total} in {folders}, and those of {TIDY}"
        terminalreporter.write_line(f"quick: {ran} tests in {took:.0f} s, {of_all}")
        for line in left_out(self._choice, self._costs):
            terminalreporter.write_line(line)


def jobs_in(arguments: Sequence[str]) -> int:
    """Return how many processes test, as pytest is told."""
    jobs = arguments[arguments.index("-n") + 1] if "-n" in arguments else "1"
    return max(1, int(jobs)) if jobs.isdecimal() else len(os.sched_getaffinity(0))


def left_out(choice: Choice, costs: Mapping[str, Cost]) -> list[str]:
    """Return what is said of what was left out."""
    lines = []
    if choice.left:
        tests = sum(costs[path].tests for path in choice.left)
        lines.append(
            f"left out: {tests} tests of {len(choice.left)} files that the change reaches,"
            f" {choice.left[0]} the nearest; make test runs them"
        )
    if choice.without:
        lines.append(f"no test here is of {', '.join(choice.without)}; make test has those")
    return lines


def main(arguments: list[str]) -> int:
    """Pick, run and report; arguments go to pytest."""
    began = time.monotonic()
    changed = changed_files(ROOT)
    sources = sources_of(ROOT)
    cache = ROOT / ".pytest_cache/v"
    imports = cached_imports(sources, cache / "shardlog/imports")
    far, without = reached(sources, changed, imports)
    times = read_cache(cache / PROCESSOR_TIMES)
    costs = costs_of(sources, times)
    jobs = jobs_in(arguments)
    tidy_s = sum(took for test, took in times.items() if test.startswith(TIDY))
    choice = choose(far, costs, changed, jobs * (BEGUN_WITHIN_S - START_S) - tidy_s)
    choice.without = without
    nearest = max(1, min(map(far.__getitem__, choice.picked), default=0))
    near = sum(far[path] <= nearest for path in choice.picked)
    print(f"changed: {', '.join(changed)}", flush=True)  # noqa: T201 - for people
    late = ("-p", "tests.deadline", f"--begin-until={began + BEGUN_WITHIN_S}")
    return pytest.main(
        [*arguments, *late, *choice.picked[:near], TIDY, *choice.picked[near:]],
        plugins=[Summary(choice, costs, began)],
    )


def _git(root: Path, *command: str) -> list[str]:
    ran = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def _is_test(path: str) -> bool:
    return PurePosixPath(path).name.startswith("test_")


def _guess(path: str, source: str) -> Cost:
    tests = len(re.findall(r"^def test_", source, re.MULTILINE))
    guess_s = next(guess for folder, guess in _GUESS_S.items() if path.startswith(folder))
    return Cost(tests, tests * guess_s, is_known=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
