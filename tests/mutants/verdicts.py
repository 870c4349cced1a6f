"""What becomes of mutants: each is caught, survives, or is broken and says nothing.

    caught      the body of its test fails with the bug, and the same case of it passes without
    survived    its test passes with the bug: it is blind for it
    broken      its line is not there, or cannot be imported with the bug; its test did not run,
                came to its end before its body, or fails without the bug

Only the cases that have failed are run without a bug, those of a folder together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, Literal

from tests.mutants.mutant import MisplacedError, Mutant
from tests.mutants.tree_copy import Outcome, TreeCopy

Word = Literal["caught", "survived", "broken"]
_WHY_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant, why, by which case of its test, and how long that took."""

    mutant: Mutant
    word: Word
    why: str
    case: str
    took_s: float

    @property
    def line(self) -> str:
        """Return it in a line."""
        return f"{self.word.upper()} {self.mutant.name}, by {self.case}: {self.why}"


class Bench:
    """Copies of one tree, as many as run at once."""

    def __init__(self, tree: Path, place: Path, jobs: int) -> None:
        """Make the copies, in a place."""
        self._jobs = jobs
        self._free: SimpleQueue[TreeCopy] = SimpleQueue()
        for number in range(jobs):
            self._free.put(TreeCopy(tree, place / f"tree-{number}"))

    def with_bugs(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """Yield what becomes of tests with each mutant, as it is known."""
        with ThreadPoolExecutor(self._jobs) as threads:
            for run in as_completed([threads.submit(self._with_bug, one) for one in mutants]):
                yield run.result()

    def without(self, cases: Iterable[str]) -> dict[str, str]:
        """Run cases of tests without a bug; return those that do not pass, and why."""
        folders: dict[str, list[str]] = {}
        for case in dict.fromkeys(cases):
            # Those of a folder share what starts slowly.
            folders.setdefault("/".join(case.split("/")[:2]), []).append(case)
        failures: dict[str, str] = {}
        with ThreadPoolExecutor(self._jobs) as threads:
            for failing in threads.map(self._without, folders.values()):
                failures |= failing
        return failures

    def _with_bug(self, mutant: Mutant) -> Verdict:
        began_s = perf_counter()
        with self._tree() as copy:
            word, why, case = _judged(copy, mutant)
        return Verdict(mutant, word, why, case, perf_counter() - began_s)

    def _without(self, cases: Sequence[str]) -> dict[str, str]:
        with self._tree() as copy:
            outcomes = copy.run(cases)
        return {case: why for case in cases if (why := _why_not(case, outcomes))}

    @contextmanager
    def _tree(self) -> Iterator[TreeCopy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def judge(
    mutants: Sequence[Mutant], tree: Path, jobs: int, report: Callable[[str], None]
) -> list[Verdict]:
    """Put each mutant into a copy of a tree, and tell what became of it.

    Args:
        mutants: Them.
        tree: The tree, which stays as it is.
        jobs: How many run at once.
        report: Called with a line for each step.
    """
    verdicts: list[Verdict] = []
    with TemporaryDirectory(prefix="shardlog-mutants-") as place:
        bench = Bench(tree, Path(place), jobs)
        for verdict in bench.with_bugs(mutants):
            verdicts.append(verdict)
            report(f"{verdict.took_s:6.1f} s  {len(verdicts)} of {len(mutants)}: {verdict.line}")
        began_s = perf_counter()
        failing = bench.without(verdict.case for verdict in verdicts if verdict.word == "caught")
        report(f"{perf_counter() - began_s:6.1f} s  the same without bugs: {len(failing)} fail")
    for index, verdict in enumerate(verdicts):
        if verdict.word == "caught" and (why := failing.get(verdict.case)):
            verdicts[index] = replace(verdict, word="broken", why=f"without the bug it {why}")
            report(f"   and so  {verdicts[index].line}")
    return verdicts


def _judged(copy: TreeCopy, mutant: Mutant) -> tuple[Word, str, str]:
    """Return what became of it, why, and by which case."""
    test = mutant.test
    try:
        with copy.with_bug(mutant):
            if mutant.module is not None and (why := copy.why_not_imported(mutant.module)):
                return "broken", why, test
            outcomes = copy.run([test], ["-x"])
    except MisplacedError as error:
        return "broken", str(error), test
    caught = next((one for one in outcomes if one.has_failed_itself), None)
    if caught is not None:
        return "caught", caught.why[:_WHY_MAX], caught.test
    why_not = _why_not(test, outcomes)
    return ("broken", why_not, test) if why_not else ("survived", "it passes", test)


def _why_not(test: str, outcomes: Sequence[Outcome]) -> str | None:
    """Say why a test has not passed; None if it has, each case of it that is not left out."""
    own = [one for one in outcomes if one.test == test or one.test.startswith(f"{test}[")]
    failed = next((one for one in own if one.outcome == "failed"), None)
    if failed is not None:
        return f"fails in its {failed.phase} ({failed.test}: {failed.why[:_WHY_MAX]})"
    if not any(one.phase == "call" and one.outcome == "passed" for one in own):
        return "did not run, or not to its end"
    return None
