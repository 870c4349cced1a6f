"""The command: runs experiments, prints the table, fails when a row is beyond its limit.

python -m bench                                   all rows with limits, five rounds
python -m bench --rows append,scan --pairs 7      some, more often
python -m bench --rows blocks,codecs              the figures behind the defaults
"""

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.append_rows import APPEND
from bench.ingest_peers import PEERS
from bench.ingest_rows import INGEST, INGEST_LARGE
from bench.ingest_watched import LATENCY, TAKEOVER
from bench.measure import Experiment, RowResult, row_results, run_rounds
from bench.memory_rows import MEMORY
from bench.open_rows import OPEN
from bench.read_rows import COMMITTED, RANGE, SCAN
from bench.report import json_text, machine, markdown_table, text_table
from bench.shape_rows import BLOCKS, CODECS
from bench.single_rows import DURABLE, SINGLE
from bench.spark_rows import SPARK_SINK, SPARK_SOURCE
from bench.spark_small_rows import SPARK_LATENCY, SPARK_MEMORY, SPARK_SMALL_SINK, SPARK_SMALL_SOURCE
from bench.workspace import empty_directory

EXPERIMENTS: Final = (
    APPEND,
    SINGLE,
    DURABLE,
    SCAN,
    RANGE,
    COMMITTED,
    OPEN,
    MEMORY,
    INGEST,
    INGEST_LARGE,
    LATENCY,
    TAKEOVER,
    PEERS,
    SPARK_SOURCE,
    SPARK_SINK,
    SPARK_SMALL_SOURCE,
    SPARK_SMALL_SINK,
    SPARK_LATENCY,
    SPARK_MEMORY,
    BLOCKS,
    CODECS,
)
PAIRS_MIN: Final = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    wanted = _parser().parse_args(arguments)
    chosen = _chosen(wanted.rows)
    # A benchmark that is told to stop still removes what it wrote.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    before = machine()
    results: list[RowResult] = []
    with empty_directory(wanted.directory) as workspace:
        for experiment in chosen:
            results += run_experiment(experiment, workspace, wanted.pairs)
    after = machine()
    print(text_table(results), flush=True)
    print(f"{before['cpus']} processors, load {before['load']} before and {after['load']} after")
    if wanted.json is not None:
        wanted.json.write_text(json_text(results, (before, after)))
    if wanted.markdown is not None:
        wanted.markdown.write_text(markdown_table(results))
    missed = [result.row.name for result in results if result.is_missed]
    if missed:
        print(f"beyond the limit: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def run_experiment(experiment: Experiment, workspace: Path, pairs: int) -> list[RowResult]:
    """Run one experiment in a directory of its own."""
    free = shutil.disk_usage(workspace).free
    if free < experiment.bytes_needed:
        message = f"{experiment.name} needs {experiment.bytes_needed} bytes; {free} are free"
        raise SystemExit(message)
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
    _tell("")
    return row_results(experiment.rows, measured)


def _chosen(names: str | None) -> list[Experiment]:
    if names is None:
        return [experiment for experiment in EXPERIMENTS if experiment.is_default]
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    unknown = sorted(set(names.split(",")) - set(known))
    if unknown:
        message = f"unknown rows {', '.join(unknown)}; there are {', '.join(known)}"
        raise SystemExit(message)
    return [known[name] for name in dict.fromkeys(names.split(","))]


def _pairs(text: str) -> int:
    pairs = int(text)
    if pairs < PAIRS_MIN:
        message = f"{pairs} pairs say nothing; at least {PAIRS_MIN}"
        raise argparse.ArgumentTypeError(message)
    return pairs


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    names = ", ".join(experiment.name for experiment in EXPERIMENTS)
    parser.add_argument("--rows", help=f"comma-separated, of: {names}")
    parser.add_argument("--pairs", type=_pairs, default=PAIRS_MIN, help="rounds, at least 5")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="the disk to measure; a directory is made in it and removed",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
