"""The demo: Kafka, a registry, two workers, a lake, a lost disk, Spark, SQL, a balanced ledger.

python -m demo                    200,000 records of 500 devices: Avro of two versions of a schema,
                                  some late, some to expire, some that no schema wrote
python -m demo --records 50000    less
python -m demo --keep             leaves the page over it until Ctrl-C
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.devtools.broker import BROKER, KAFKA
from connectors.devtools.fetch import download_line
from connectors.devtools.process import Process
from connectors.devtools.registry import APICURIO, REGISTRY
from connectors.devtools.stack import DevStack
from connectors.kafka import Admin
from demo.job import COUNTS, EXPECTED, TELEMETRY
from demo.ledger import (
    DEAD_LETTER_TOPIC,
    Ledger,
    Recovered,
    dead_letters,
    forwarded,
    read_recovered,
    read_stored,
    what_became,
)
from demo.lost_disk import LAKE_LAG_S, is_disk_deleted, published
from demo.page import leave_page_up
from demo.rolled import Rolled, corrected, roll_up, rolled
from demo.sealed import seal_and_ask
from storage_core import (
    InvalidRequestError,
    LostRangeError,
    ShardlogError,
    StreamReader,
    SystemClock,
)

_CLOCK: Final = SystemClock()
_RECORDS: Final = 200_000
_RATE: Final = 15_000
_WAIT_MAX_S: Final = 180.0
_LOOK_S: Final = 0.2
_PARTITIONS: Final = 4
# Longer than the windows of the lowest level, which are whole only above the floor.
_KEPT_HOURS: Final = 3
# Of so many records one is older than the stream keeps.
_OLD_ONE_IN: Final = 50
_OLD_MS: Final = 6 * 3_600_000
# Of so many records of the rest, this share no schema wrote.
_BAD_SHARE: Final = 0.01
_SCHEMAS: Final = Path(__file__).parents[1] / "schemas" / "avro" / "devices"
_SHARDLOG: Final = "connectors.cli.main"
# Places in the demo's own: of the table, and of the disk that takes over.
_LAKE: Final = "lake"
_OTHER_ROOT: Final = "other root"

_Running = subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class _Servers:
    """Where broker and registry answer."""

    bootstrap: str
    registry: str


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=_RECORDS, help="records to produce")
    parser.add_argument("--rate", type=int, default=_RATE, help="records a second")
    parser.add_argument("--keep", action="store_true", help="leave the page up until Ctrl-C")
    wanted = parser.parse_args(arguments)
    start = _CLOCK.monotonic_s()
    with tempfile.TemporaryDirectory(prefix="shardlog-demo-") as place:
        try:
            is_balanced = _run(Path(place), wanted.records, wanted.rate)
            _say(f"{_CLOCK.monotonic_s() - start:.0f} seconds")
            if wanted.keep:
                leave_page_up(Path(place) / _OTHER_ROOT, _say)
        except ShardlogError as error:
            sys.stderr.write(f"demo: {error}\n")
            return 1
    return 0 if is_balanced else 1


def _run(place: Path, records: int, rate: int) -> bool:
    root, job_place = place / "root", place / "spark"
    job_place.mkdir()
    with ExitStack() as running:
        servers = _servers(place / "servers", running)
        _register(servers, version=1)
        old = records // _OLD_ONE_IN
        workers, acknowledged = _store_old(servers, root, old, running)
        half, rest = (records - old) // 2, (records - old + 1) // 2
        more = (f"--rate={rate}", f"--bad-share={_BAD_SHARE}")
        _say(
            f"producing {half:,} records of 500 devices at {rate:,} a second, 3 % of them late; "
            f"one in {1 / _BAD_SHARE:.0f} is no Avro"
        )
        producer = running.enter_context(_producing(servers, half, *more))
        _say(f"the stream keeps {_KEPT_HOURS} hours: waiting until the old ones have expired")
        _await(lambda: _expired(root) >= old, "what is old did not expire")
        _say(f"starting Spark: a job tails the shards and writes counts into stream {COUNTS!r}")
        job = running.enter_context(_process("demo.job", os.fspath(root), os.fspath(job_place)))
        _await_stored(root, records // 3, workers)
        _say("rolling up what is there by hour, day, month and year, with roll_up")
        before = _rolled_up(root, job_place)
        _say("kill -9 of one worker")
        workers[0].kill()
        workers[0].wait()
        acknowledged += _acknowledged(producer)
        _register(servers, version=2)
        _say(f"producing {rest:,} more by it")
        producer = running.enter_context(_producing(servers, rest, *more, "--seed=2"))
        acknowledged += _acknowledged(producer)
        _say(f"all {acknowledged:,} produced; waiting until worker and Spark have what is left")
        _await_stored(root, acknowledged, workers[1:])
        _await(lambda: not dead_letters(root).waiting, "the dead letters were not forwarded")
        (job_place / EXPECTED).write_text(str(what_became(root)[1].sum()))
        seen = _answer(job)
        _say("rolling up what came since")
        _say(corrected(root, before, _rolled_up(root, job_place)))
        stored = read_stored(root)
        _lose_disk(root, workers[1])
        again = _recovered(servers, place, acknowledged, running)
        ledger = Ledger(acknowledged, stored, forwarded(servers.bootstrap), seen, again)
    _say("the ledger:")
    for line in ledger.lines():
        sys.stdout.write(line + "\n")
    return ledger.is_balanced


def _lose_disk(root: Path, worker: _Running) -> None:
    """Kill the worker and delete its disk, once the lake has something of each partition."""
    _await(lambda: len(published(root).shards) == _PARTITIONS, "the lake has not each partition")
    left = published(root).unpublished
    worker.kill()
    worker.wait()
    _await(lambda: is_disk_deleted(root), "the lost disk was not deleted")
    _say(
        "kill -9 of the other worker, and its disk is deleted; "
        f"{left:,} records were in Kafka alone"
    )


def _recovered(servers: _Servers, place: Path, records: int, running: ExitStack) -> Recovered:
    """Have a worker store all again on an empty disk, and count what it then has."""
    _say("starting a worker on an empty disk: it begins from the lake, the rest comes from Kafka")
    root = place / _OTHER_ROOT
    command = (_SHARDLOG, "worker", *_worker(servers, root, place / _LAKE))
    worker = running.enter_context(_process(*command))
    _await_stored(root, records, [worker])
    _say("stopping it; before it ends it publishes what it has stored")
    worker.send_signal(signal.SIGTERM)
    worker.wait(_WAIT_MAX_S)
    return read_recovered(root, place / _LAKE, _counted_in_sql(root))


def _servers(place: Path, running: ExitStack) -> _Servers:
    parts = ((BROKER, "a Kafka broker", KAFKA), (REGISTRY, "a schema registry", APICURIO))
    # Who names servers of their own downloads none.
    started = [(name, jars) for kind, name, jars in parts if not os.environ.get(kind.variable)]
    if started:
        _say(f"jars: {download_line([jars for _, jars in started])}")
        _say(f"starting {' and '.join(name for name, _ in started)}")
    stack = DevStack(place, owner=Process.current())
    running.callback(stack.stop)
    return _Servers(stack.address(BROKER), stack.address(REGISTRY))


def _store_old(
    servers: _Servers, root: Path, records: int, running: ExitStack
) -> tuple[list[_Running], int]:
    """Start workers on records that are too old to be kept; return those and how many it are."""
    _say(f"producing {records:,} records that are six hours old")
    then_ms = _CLOCK.now_ns() // 10**6 - _OLD_MS
    with _producing(servers, records, f"--start-ms={then_ms}") as producer:
        _await_topic(servers.bootstrap)
        _say("starting two workers on one root; the group shares out four partitions")
        workers = [
            running.enter_context(
                _process(_SHARDLOG, "worker", *_worker(servers, root, root.parent / _LAKE))
            )
            for _ in range(2)
        ]
        acknowledged = _acknowledged(producer)
    _await_stored(root, acknowledged, workers)
    return workers, acknowledged


def _register(servers: _Servers, version: int) -> None:
    file = _SCHEMAS / f"{TELEMETRY}.v{version}.avsc"
    _say(f"registering version {version} of the schema, schemas/avro/devices/{file.name}")
    options = [os.fspath(file), f"--registry={servers.registry}"]
    with _process(_SHARDLOG, "schema", "register", *options) as registering:
        if registering.wait(_WAIT_MAX_S):
            message = f"{file.name} was not registered"
            raise InvalidRequestError(message)


def _producing(servers: _Servers, records: int, *more: str) -> AbstractContextManager[_Running]:
    options = [
        f"--bootstrap={servers.bootstrap}",
        "--avro",
        f"--registry={servers.registry}",
        f"--records={records}",
        "--devices=500",
        "--late-share=0.03",
        "--seed=1",
        f"--partitions={_PARTITIONS}",
    ]
    return _process(_SHARDLOG, "produce", TELEMETRY, *options, *more)


def _worker(servers: _Servers, root: Path, lake: Path) -> list[str]:
    settings = {
        "root": os.fspath(root),
        "topics": json.dumps([TELEMETRY]),
        "stream.value_format": "avro",
        "stream.primary": "field:at",
        "stream.retention_hours": str(_KEPT_HOURS),
        "schema.registry.url": servers.registry,
        "dead_letters.policy": "forward",
        "dead_letters.topic": DEAD_LETTER_TOPIC,
        "stream.lake": os.fspath(lake),
        "stream.lake_lag_seconds": str(LAKE_LAG_S),
        "lake.revoke_wait_seconds": "60",
        "expire_every_s": "1",
        "kafka.bootstrap.servers": servers.bootstrap,
        "kafka.session.timeout.ms": "6000",
        "kafka.heartbeat.interval.ms": "500",
    }
    return [f"--set={name}={value}" for name, value in settings.items()]


@contextmanager
def _process(*command: str, is_answering: bool = True) -> Iterator[subprocess.Popen[str]]:
    """Run a module of ours; what is left of it in the end is killed.

    One that answers has somebody who reads what it prints.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.PIPE if is_answering else errors,
            stderr=errors,
            text=True,
        )
        try:
            yield process
        except BaseException:
            errors.seek(0)
            sys.stderr.write("".join(errors.readlines()[-5:]))
            raise
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _await_topic(bootstrap: str) -> None:
    admin = Admin({"bootstrap.servers": bootstrap})
    _await(lambda: TELEMETRY in admin.partitions(), "the topic was not created")


def _await_stored(root: Path, records: int, workers: list[subprocess.Popen[str]]) -> None:
    def is_stored() -> bool:
        if any(worker.poll() is not None for worker in workers):
            message = "a worker ended by itself"
            raise InvalidRequestError(message)
        try:
            with StreamReader.open(root, TELEMETRY) as reader:
                return sum(reader.committed().values()) >= records
        except InvalidRequestError:
            return False

    _await(is_stored, f"{records} records were not stored")


def _expired(root: Path) -> int:
    try:
        return what_became(root)[0]
    except LostRangeError:
        # It expires while it is counted.
        return 0


def _await(condition: Callable[[], bool], awaited: str) -> None:
    deadline = _CLOCK.monotonic_s() + _WAIT_MAX_S
    while not condition():
        if _CLOCK.monotonic_s() > deadline:
            message = f"{awaited} within {_WAIT_MAX_S:g} s"
            raise InvalidRequestError(message)
        _CLOCK.sleep(_LOOK_S)


def _acknowledged(producer: subprocess.Popen[str]) -> int:
    """Wait for the producer and return how many records its closing line says were taken."""
    out, _ = producer.communicate(timeout=_WAIT_MAX_S)
    match = re.search(r"(\d+) records acknowledged", out)
    if producer.returncode != 0 or match is None:
        message = f"the producer ended with {producer.returncode}"
        raise InvalidRequestError(message)
    return int(match.group(1))


def _answer(job: subprocess.Popen[str]) -> int:
    out, _ = job.communicate(timeout=_WAIT_MAX_S)
    if job.returncode != 0 or not out.strip():
        message = f"the Spark job ended with {job.returncode}"
        raise InvalidRequestError(message)
    return int(json.loads(out.strip().splitlines()[-1])["seen"])


def _rolled_up(root: Path, place: Path) -> Rolled:
    with _process(*roll_up(root, place), is_answering=False) as job:
        if job.wait(_WAIT_MAX_S):
            message = f"the roll-up ended with {job.returncode}"
            raise InvalidRequestError(message)
    return rolled(root)


def _counted_in_sql(root: Path) -> int:
    _say("sealing what is stored into files of Parquet, and asking them in SQL")
    sealed = seal_and_ask(root)
    for line in sealed.lines():
        sys.stdout.write(line + "\n")
    return sealed.counted


def _say(text: str) -> None:
    sys.stdout.write(f"* {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
