"""What becomes of mutants: each is caught, survives, or is broken and says nothing.

caught      the body of its test fails with the bug, and does not without
survived    its test passes with the bug: it is blind for it
broken      its line is not there, or cannot be imported with the bug; its test fails without
            the bug, did not run, or came to its end before its body
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Literal

from tests.mutants.mutant import MisplacedError, Mutant
from tests.mutants.tree_copy import Outcome, TreeCopy

Word = Literal["caught", "survived", "broken"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant, why, and how long it took."""

    mutant: Mutant
    word: Word
    why: str
    took_s: float = 0.0


class Bench:
    """Copies of one tree, as many as run at once."""

    def __init__(self, tree: Path, place: Path, jobs: int) -> None:
        """Make the copies, in a place."""
        self._jobs = jobs
        self._free: SimpleQueue[TreeCopy] = SimpleQueue()
        for number in range(jobs):
            self._free.put(TreeCopy(tree, place / f"tree-{number}"))

    def failing(self, tests: Iterable[str], told: Callable[[str], None]) -> dict[str, str]:
        """Run tests without a bug; return those that do not pass, and why."""
        groups: dict[str, list[str]] = {}
        for test in dict.fromkeys(tests):
            # Those of a folder share what starts slowly.
            groups.setdefault("/".join(test.split("/")[:2]), []).append(test)
        found: dict[str, str] = {}
        with ThreadPoolExecutor(self._jobs) as threads:
            runs = {threads.submit(self._clean, each): folder for folder, each in groups.items()}
            for run in as_completed(runs):
                outcomes, took_s = run.result()
                of_folder = {
                    test: why for test in groups[runs[run]] if (why := _why_not(test, outcomes))
                }
                told(f"{took_s:6.1f} s  without a bug, {runs[run]}: {len(of_folder)} fail")
                found |= of_folder
        return found

    def judge_all(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """Yield what becomes of each mutant, as it is known."""
        with ThreadPoolExecutor(self._jobs) as threads:
            for run in as_completed([threads.submit(self._judge, one) for one in mutants]):
                yield run.result()

    def _clean(self, tests: Sequence[str]) -> tuple[list[Outcome], float]:
        began_s = perf_counter()
        with self._one() as copy:
            outcomes = copy.run(tests)
            if not outcomes and len(tests) > 1:
                # Where pytest does not find one it runs none.
                outcomes = [one for test in tests for one in copy.run([test])]
        return outcomes, perf_counter() - began_s

    def _judge(self, mutant: Mutant) -> Verdict:
        began_s = perf_counter()
        with self._one() as copy:
            word, why = _judged(copy, mutant)
        return Verdict(mutant, word, why, perf_counter() - began_s)

    @contextmanager
    def _one(self) -> Iterator[TreeCopy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def judge(
    mutants: Sequence[Mutant], tree: Path, jobs: int, told: Callable[[str], None]
) -> list[Verdict]:
    """Put each mutant into a copy of a tree, and tell what became of it.

    Args:
        mutants: Them.
        tree: The tree, which stays as it is.
        jobs: How many run at once.
        told: Called with a line for each step.
    """
    found: list[Verdict] = []

    def note(verdict: Verdict) -> None:
        found.append(verdict)
        one, took_s, done = verdict.mutant, verdict.took_s, f"{len(found)} of {len(mutants)}"
        told(f"{took_s:6.1f} s  {done}: {verdict.word.upper()} {one.name} ({verdict.why})")

    with TemporaryDirectory(prefix="shardlog-mutants-") as place:
        bench = Bench(tree, Path(place), jobs)
        failing = bench.failing((one.test for one in mutants), told)
        for one in mutants:
            if one.test in failing:
                note(Verdict(one, "broken", f"without it {one.test} {failing[one.test]}"))
        for verdict in bench.judge_all([one for one in mutants if one.test not in failing]):
            note(verdict)
    return found


def _judged(copy: TreeCopy, mutant: Mutant) -> tuple[Word, str]:
    try:
        with copy.with_bug(mutant):
            if mutant.module is not None and (why := copy.why_not_imported(mutant.module)):
                return "broken", why
            outcomes = copy.run([mutant.test], ["-x"])
    except MisplacedError as error:
        return "broken", str(error)
    caught = next((one for one in outcomes if one.has_failed_itself), None)
    if caught is not None:
        return "caught", f"{caught.test}: {caught.why[:120]}"
    why_not = _why_not(mutant.test, outcomes)
    return ("broken", f"{mutant.test} {why_not}") if why_not else ("survived", mutant.test)


def _why_not(test: str, outcomes: Sequence[Outcome]) -> str | None:
    """Say why a test has not passed; None if it has, each case of it that is not left out."""
    own = [one for one in outcomes if one.test == test or one.test.startswith(f"{test}[")]
    failed = next((one for one in own if one.outcome == "failed"), None)
    if failed is not None:
        return f"fails in its {failed.phase} ({failed.test}: {failed.why[:120]})"
    if not any(one.phase == "call" and one.outcome == "passed" for one in own):
        return "did not run, or not to its end"
    return None
