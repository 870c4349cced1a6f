"""Beside our ingest, on the same topic: other stream processors, and two workers against one.

None of it has a limit. quix-streams keeps the last value of each key in RocksDB, bytewax keeps
nothing. What is slow reads the topic's first records only. The peers are installed into
environments of their own, from the package index, and go when the run ends: so the rows are not
among those that run by default.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.child import child_process
from bench.ingest.rates import SMALL_RECORDS, filled_topic, ingest
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS
from bench.workspace import empty_directory

_SCRIPTS: Final = Path(__file__).parent / "foreign"
_QUIX: Final = "quixstreams==3.28.1"
_QUIX_RECORDS: Final = 150_000
_WAX: Final = "bytewax[kafka]==0.21.1"
_WAX_RECORDS: Final = 400_000
_INSTALL_MAX_S: Final = 300.0
_RUN_MAX_S: Final = 120.0


@contextmanager
def _beside_peers(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    quix, wax = _installed(workspace, _QUIX), _installed(workspace, _WAX)
    with filled_topic(workspace, SMALL_RECORDS, 100) as (bootstrap, topic):

        def quix_streams() -> Measured:
            with empty_directory(workspace) as state:
                return _run(quix, "quix.py", bootstrap, topic, _QUIX_RECORDS, state)

        yield {
            "ours": lambda: _ingest(bootstrap, topic, workspace, 1),
            "two of ours": lambda: _ingest(bootstrap, topic, workspace, 2),
            "quix-streams": quix_streams,
            "bytewax": lambda: _run(wax, "wax.py", bootstrap, topic, _WAX_RECORDS),
        }


def _ingest(bootstrap: str, topic: str, workspace: Path, workers: int) -> Measured:
    """Store the topic with workers that share out its partitions; none waits for a group."""
    records = SMALL_RECORDS // workers
    with empty_directory(workspace) as root, ExitStack() as running:
        children = [
            running.enter_context(
                child_process(
                    ingest, bootstrap, topic, root, records, [*range(worker, PARTITIONS, workers)]
                )
            )
            for worker in range(workers)
        ]
        answers = [child.answer() for child in children]
    seconds = max(each["end_s"] for each in answers) - min(each["start_s"] for each in answers)
    return {"rate": SMALL_RECORDS / seconds}


def _installed(workspace: Path, requirement: str) -> Path:
    """Return an interpreter of its own for a package and what it needs."""
    place = workspace / requirement.partition("=")[0].partition("[")[0]
    uv = Path(sys.executable).parent / "uv"
    python = place / "bin" / "python"
    for arguments in (
        ("venv", "--python", sys.executable, str(place)),
        ("pip", "install", "--python", str(python), requirement),
    ):
        subprocess.run([uv, "--quiet", *arguments], timeout=_INSTALL_MAX_S, check=True)
    return python


def _run(python: Path, script: str, *arguments: str | int | Path) -> Measured:
    command = [str(python), str(_SCRIPTS / script), *map(str, arguments)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=_RUN_MAX_S,
        check=True,
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _against(peer: str, text: str) -> Row:
    return Row(f"peers/{peer}", text, ("ours", "rate"), (peer, "rate"))


PEERS: Final = Experiment(
    "peers",
    (
        _against("quix-streams", "durable ingest against quix-streams with keyed RocksDB state"),
        _against("bytewax", "durable ingest against bytewax, which keeps nothing"),
        Row(
            "peers/two-workers",
            "two workers against one, two partitions each",
            ("two of ours", "rate"),
            ("ours", "rate"),
        ),
    ),
    _beside_peers,
    is_default=False,
)
