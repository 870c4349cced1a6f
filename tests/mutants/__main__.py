"""`python -m tests.mutants`: put one-line bugs into a copy of the tree, and see each caught.

python -m tests.mutants                     all of them
python -m tests.mutants newest-rollup       those whose names begin so
python -m tests.mutants --tree ../before    in another tree than this one
python -m tests.mutants --table             the table of docs/TESTING.md
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

from tests.mutants.mutant import chosen, read_mutants, table_lines
from tests.mutants.verdicts import judge

_HERE = Path(__file__).parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all were caught."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description="Catch one-line bugs.")
    parser.add_argument("names", nargs="*", help="with what their names begin; all without")
    parser.add_argument("--tree", type=Path, default=_HERE, help="where the bugs go in a copy")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args(arguments)
    mutants = chosen(read_mutants(), options.names)
    if options.table:
        _tell("\n".join(table_lines(mutants)))
        return 0
    if not mutants:
        parser.error(f"no mutant has a name that begins with {' or '.join(options.names)}")
    began_s = perf_counter()
    verdicts = judge(mutants, options.tree.resolve(), options.jobs, _tell)
    counts = dict.fromkeys(("caught", "survived", "broken"), 0)
    for verdict in verdicts:
        counts[verdict.word] += 1
    totals = ", ".join(f"{number} {word}" for word, number in counts.items())
    count = f"{len(verdicts)} mutant{'s' if len(verdicts) > 1 else ''}"
    _tell(f"{count} in {perf_counter() - began_s:.0f} s: {totals}")
    return int(counts["caught"] != len(mutants))


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its result is what it prints


if __name__ == "__main__":
    sys.exit(main())
