"""Beside our ingest, on the same topic: other consumers, and two workers against one.

None of it has a limit. quix-streams keeps the last value of each key in RocksDB, bytewax and
Kafka's own consumer keep nothing. What is slow reads the topic's first records only. The peers
are installed into environments of their own, from the package index, and go when the run ends:
so the rows are not among those that run by default.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.ingest_rows import SMALL_RECORDS, fill
from bench.kafka_tools import consume_rate
from bench.measure import Contestant, Experiment, Measured, Row
from bench.processes import seconds_of
from bench.records import PARTITIONS
from bench.workspace import KAFKA_TASKS, ChildProcess, child_process, empty_directory
from connectors.dev_stack.broker import BROKER
from connectors.dev_stack.server import Server

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
    with Server(BROKER, workspace / "broker") as broker:
        topic = fill(broker, SMALL_RECORDS, 100)

        def workers(number: int) -> Measured:
            assert broker.running is not None
            before = seconds_of(broker.running.program.pid)
            measured = _ingest(broker.address, topic, workspace, number)
            used = seconds_of(broker.running.program.pid) - before
            return {**measured, "broker_cpu": used / SMALL_RECORDS}

        def quix_streams() -> Measured:
            with empty_directory(workspace) as state:
                return _run(quix, "quix.py", broker.address, topic, _QUIX_RECORDS, state)

        yield {
            "ours": lambda: workers(1),
            "two of ours": lambda: workers(2),
            "quix-streams": quix_streams,
            "bytewax": lambda: _run(wax, "wax.py", broker.address, topic, _WAX_RECORDS),
            "kafka-consumer": lambda: {"rate": consume_rate(broker.address, topic, SMALL_RECORDS)},
        }


def _ingest(bootstrap: str, topic: str, workspace: Path, workers: int) -> Measured:
    """Store the topic with workers that share out its partitions; none waits for a group."""
    numbers = [list(range(at, PARTITIONS, workers)) for at in range(workers)]
    records = SMALL_RECORDS // workers
    with empty_directory(workspace) as root:
        shares = [
            child_process(
                "ingest", bootstrap, topic, root, records, json.dumps(n), module=KAFKA_TASKS
            )
            for n in numbers
        ]
        answers = _answers_of(shares)
    seconds = max(each["end_s"] for each in answers) - min(each["start_s"] for each in answers)
    return {
        "rate": SMALL_RECORDS / seconds,
        "cpu": sum(each["cpu"] for each in answers) / workers,
    }


def _answers_of(tasks: Iterable[AbstractContextManager[ChildProcess]]) -> list[dict[str, float]]:
    with ExitStack() as running:
        children = [running.enter_context(task) for task in tasks]
        return [child.answer() for child in children]


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
        _against("kafka-consumer", "durable ingest against kafka-consumer-perf-test"),
        Row(
            "peers/two-workers",
            "two workers against one, two partitions each",
            ("two of ours", "rate"),
            ("ours", "rate"),
        ),
        Row(
            "peers/broker-beside-one",
            "the broker's processor time a record against that of one worker",
            ("ours", "broker_cpu"),
            ("ours", "cpu"),
            "at most",
        ),
        Row(
            "peers/broker-beside-two",
            "the broker's processor time a record against that of two workers",
            ("two of ours", "broker_cpu"),
            ("two of ours", "cpu"),
            "at most",
        ),
    ),
    _beside_peers,
    is_default=False,
)
