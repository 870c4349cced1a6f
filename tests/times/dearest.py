"""`python -m tests.times.dearest FILE`: the table of the 40 dearest tests in docs/TESTING.md, anew.

FILE is what `SHARDLOG_TEST_TIMES=FILE make test` wrote. What a test proves stays as it is in the
table; of tests that come in, the last lines name those whose text is to be written.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from tests.tidy.tree import ROOT

PAGE = ROOT / "docs/TESTING.md"
HEAD = "| test | cases | s | processor s | what it proves |\n|---|---|---|---|---|\n"
COUNT = 40
_ROW = re.compile(r"^\| `(tests/[^`]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)


def main(file: Path) -> list[str]:
    """Write the table; return the tests that have no text."""
    page = PAGE.read_text()
    begin = page.index(HEAD) + len(HEAD)
    end = page.index("\n\n", begin) + 1
    texts = dict(_ROW.findall(page[begin:end]))
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        name = row["test"].split("[")[0].removesuffix("::runTest")
        times[name].append((row["wall"], row["cpu"]))
    sums = {name: [sum(column) for column in zip(*of, strict=True)] for name, of in times.items()}
    dearest = sorted(sums, key=lambda name: -sums[name][0])[:COUNT]
    rows = "".join(
        f"| `{name}` | {len(times[name])} | {sums[name][0]:.0f} | {sums[name][1]:.0f} "
        f"| {texts.get(name, '')} |\n"
        for name in dearest
    )
    PAGE.write_text(page[:begin] + rows + page[end:])
    return [name for name in dearest if not texts.get(name)]


if __name__ == "__main__":
    for test in main(Path(sys.argv[1])):
        print(f"without a text: {test}")  # noqa: T201 - its result is what it prints
