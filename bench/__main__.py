"""The command: runs experiments, prints the table, fails when a row is beyond its limit.

An experiment that fails is a line behind the table, which has the rows of all others.

python -m bench                                          all rows with limits, five rounds
python -m bench --rows append,scan --pairs 7             some, more often
python -m bench --rows append,scan --against DIRECTORY   by turns with another checkout's
"""

import argparse
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bench.against import TITLES, Comparison, compare
from bench.events.queries import EVENT_QUERIES
from bench.events.stores import EVENT_STORES
from bench.events.subscribers import EVENT_SUBSCRIPTIONS
from bench.ingest.fields import INGEST_AVRO
from bench.ingest.json_events import INGEST_JSON
from bench.ingest.latency import LATENCY, TAKEOVER
from bench.ingest.peers import PEERS
from bench.ingest.rates import INGEST, INGEST_LARGE, INGEST_PYTHON
from bench.lake.freshness import LAKE_LATENCY
from bench.lake.opening import LAKE_OPEN
from bench.lake.publishing import LAKE_PUBLISH
from bench.lake.reads import LAKE_READS
from bench.lake.spark import LAKE_SPARK
from bench.lake.takeover import LAKE_TAKEOVER
from bench.log.avro import AVRO
from bench.log.expiring import EXPIRY
from bench.log.indexed import INDEX, LOOKUP
from bench.log.large import MEMORY, OPEN
from bench.log.many import MANY
from bench.log.reads import COMMITTED, RANGE, SCAN
from bench.log.sealing import SEALING
from bench.log.small import SMALL
from bench.log.sql_sealed import SEALED_SQL
from bench.log.sql_verified import PROVEN
from bench.log.sql_warm import WARM
from bench.log.trimmed import TRIMMED
from bench.log.writes import APPEND, DURABLE, SINGLE
from bench.measure import Experiment, RowResult, VoidError, row_results, run_rounds
from bench.report import aligned, json_text, machine, text_table
from bench.serve.rows import SERVE
from bench.serve.sql import SERVE_SQL
from bench.spark.planning import SPARK_PLANNING
from bench.spark.rates import SPARK_SINK, SPARK_SOURCE
from bench.spark.roll_up import ROLL_UP
from bench.spark.sealed import SPARK_SEALED
from bench.spark.served import SPARK_SERVED
from bench.spark.served_sink import SPARK_SERVED_SINK
from bench.spark.small import SPARK_LATENCY, SPARK_MEMORY, SPARK_SMALL_SINK, SPARK_SMALL_SOURCE
from bench.spark.typed import SPARK_TYPED
from bench.workspace import empty_directory

EXPERIMENTS: Final = (
    APPEND,
    SINGLE,
    DURABLE,
    SCAN,
    RANGE,
    INDEX,
    LOOKUP,
    TRIMMED,
    COMMITTED,
    OPEN,
    MEMORY,
    EXPIRY,
    SEALING,
    SERVE,
    SERVE_SQL,
    EVENT_QUERIES,
    EVENT_STORES,
    EVENT_SUBSCRIPTIONS,
    SMALL,
    SEALED_SQL,
    PROVEN,
    WARM,
    MANY,
    AVRO,
    INGEST,
    INGEST_PYTHON,
    INGEST_LARGE,
    INGEST_AVRO,
    INGEST_JSON,
    LATENCY,
    TAKEOVER,
    PEERS,
    SPARK_PLANNING,
    SPARK_SOURCE,
    SPARK_SERVED,
    SPARK_SERVED_SINK,
    ROLL_UP,
    SPARK_SINK,
    SPARK_TYPED,
    SPARK_SEALED,
    SPARK_SMALL_SOURCE,
    SPARK_SMALL_SINK,
    SPARK_LATENCY,
    SPARK_MEMORY,
    LAKE_PUBLISH,
    LAKE_READS,
    LAKE_OPEN,
    LAKE_LATENCY,
    LAKE_TAKEOVER,
    LAKE_SPARK,
)
_PAIRS_MIN: Final = 3
_PAIRS: Final = 5
_THIS: Final = Path(__file__).parents[1]
_Result = TypeVar("_Result")


def main(
    arguments: list[str] | None = None, experiments: Sequence[Experiment] = EXPERIMENTS
) -> int:
    """Run the command over these experiments and return its exit code."""
    wanted = _parser(experiments).parse_args(arguments)
    chosen = _chosen(wanted.rows, experiments)
    with empty_directory(wanted.directory) as workspace:
        if wanted.against is not None:
            return _compare(chosen, wanted.against.resolve(), workspace, wanted.pairs)
        return _measure(chosen, workspace, wanted.pairs, wanted.json)


def _measure(chosen: list[Experiment], workspace: Path, pairs: int, json: Path | None) -> int:
    before = machine()
    results: list[RowResult] = []
    try:
        failed = _run_all(chosen, lambda one: _run_experiment(one, workspace, pairs), results)
    finally:
        after = machine()
        print(text_table(results), flush=True)
        load = f"load {before['load']} before and {after['load']} after"
        print(f"{before['cpus']} processors, {load}", flush=True)
        if json is not None:
            json.write_text(json_text(results, (before, after)))
    missed = [result.row.name for result in results if result.is_missed]
    if missed:
        failed.append(f"beyond the limit: {', '.join(missed)}")
    return _summary(failed)


def _run_experiment(experiment: Experiment, workspace: Path, pairs: int) -> list[RowResult]:
    """Run one experiment in a directory of its own."""
    free = shutil.disk_usage(workspace).free
    if free < experiment.bytes_needed:
        message = f"it needs {experiment.bytes_needed} bytes of disk; {free} are free"
        raise VoidError(message)
    rounds = min(pairs, experiment.rounds_max or pairs)
    _tell(f"{experiment.name}: getting ready")
    with empty_directory(workspace) as path, experiment.contestants(path) as contestants:
        measured = list(
            run_rounds(
                contestants,
                rounds,
                lambda number, name: _tell(
                    f"{experiment.name}: round {number + 1} of {rounds}, {name}"
                ),
            )
        )
    return row_results(experiment.rows, measured)


def _compare(chosen: list[Experiment], other: Path, workspace: Path, pairs: int) -> int:
    results: list[Comparison] = []
    try:
        failed = _run_all(
            chosen, lambda one: compare(one, (other, _THIS), workspace, pairs, _tell), results
        )
    finally:
        print(aligned([TITLES, *(comparison.cells() for comparison in results)]), flush=True)
    worse = [comparison.row.name for comparison in results if comparison.verdict == "worse"]
    if worse:
        failed.append(f"worse than in {other}: {', '.join(worse)}")
    return _summary(failed)


def _run_all(
    chosen: list[Experiment],
    run: Callable[[Experiment], Iterable[_Result]],
    results: list[_Result],
) -> list[str]:
    """Run experiments and add their results; return a line for each that has none."""
    failed = []
    for experiment in chosen:
        try:
            results += run(experiment)
        except VoidError as error:
            failed.append(f"void: {experiment.name}: {error}")
        except Exception as error:  # noqa: BLE001 - the figures of the others took an hour
            _tell("")
            traceback.print_exc()
            failed.append(f"failed: {experiment.name}: {_last_line(error)}")
    _tell("")
    return failed


def _last_line(error: Exception) -> str:
    """Return the last line of what an error says that is no part of a stack."""
    lines = "".join(traceback.format_exception_only(error)).splitlines()
    return [line for line in lines if line and not line[0].isspace()][-1]


def _summary(failed: list[str]) -> int:
    """Say what failed and return the exit code."""
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def _chosen(names: str | None, experiments: Sequence[Experiment]) -> list[Experiment]:
    if names is None:
        return [experiment for experiment in experiments if experiment.is_default]
    by_name = {experiment.name: experiment for experiment in experiments}
    unknown = sorted(set(names.split(",")) - set(by_name))
    if unknown:
        message = f"unknown rows {', '.join(unknown)}; there are {', '.join(by_name)}"
        raise SystemExit(message)
    return [by_name[name] for name in dict.fromkeys(names.split(","))]


def _pairs(text: str) -> int:
    pairs = int(text)
    if pairs < _PAIRS_MIN:
        message = f"{pairs} pairs say nothing; at least {_PAIRS_MIN}"
        raise argparse.ArgumentTypeError(message)
    return pairs


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _parser(experiments: Sequence[Experiment]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    names = ", ".join(experiment.name for experiment in experiments)
    parser.add_argument("--rows", help=f"comma-separated, of: {names}")
    parser.add_argument("--pairs", type=_pairs, default=_PAIRS, help="rounds, 5 if not told")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="the disk to measure; a directory is made in it and removed",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", type=Path, help="write all figures to this file")
    output.add_argument(
        "--against",
        type=Path,
        metavar="DIRECTORY",
        help="take turns with the same rows of another checkout; fail when one is worse here",
    )
    return parser


if __name__ == "__main__":
    # A benchmark that is told to stop still removes what it wrote, and shows what it has.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    sys.exit(main())
