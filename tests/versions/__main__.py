"""`python -m tests.versions`: run `tests/spark` on each PySpark that is supported, one by one.

python -m tests.versions                    the newest of each line, and the oldest of all
python -m tests.versions 4.0.5 --tests tests/spark/sink
python -m tests.versions --fetch            only fetch them
"""

import argparse
import sys
from time import perf_counter

from tests.versions.pysparks import FLOOR, NEWEST, FetchError, pyspark_of, run_tests


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all tests passed on all versions."""
    parser = argparse.ArgumentParser("python -m tests.versions", description="Try each PySpark.")
    parser.add_argument("versions", nargs="*", default=[FLOOR, *NEWEST], help="which; all without")
    parser.add_argument("--tests", nargs="+", default=["tests/spark"], help="what is run on each")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--fetch", action="store_true", help="fetch them, and run nothing")
    options = parser.parse_args(arguments)
    lines = []
    for version in options.versions:
        try:
            place = pyspark_of(version, _tell)
        except FetchError as error:
            lines.append((f"{version}  {error}", False))
            continue
        if options.fetch:
            continue
        began_s = perf_counter()
        ended = run_tests(place, options.tests, options.jobs)
        word = "passes" if ended == 0 else "fails"
        lines.append((f"{version}  {word} in {perf_counter() - began_s:.0f} s", ended == 0))
    for line, _ in lines:
        _tell(f"PySpark {line}")
    return 0 if all(is_well for _, is_well in lines) else 1


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its result is what it prints


if __name__ == "__main__":
    sys.exit(main())
