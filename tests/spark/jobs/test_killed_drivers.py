"""A driver that dies by -9 in the middle of a batch: its jobs go on, and each row is there once.

Driver and JVM are killed together (doomed_driver.py); the shared session goes on from the
checkpoints. Every other driver of a job works over a server, and the session by path. The first
drivers of all jobs are one, since to start one takes longer than what it does. kills.py says how
many die, and when; of all tests one for each job, and of those of the sink one while rows land and
one behind that.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from storage_core import StreamReader
from tests.log.served import served
from tests.spark.support import dying_sink, rollup_driver, source_driver
from tests.spark.support.dying_sink import AFTER, BEFORE, STAGING, WITHIN
from tests.spark.support.kills import SINK, kill_driver, kills
from tests.spark.support.rollup_driver import ROWS_A_BATCH
from tests.spark.support.rollup_lab import RollupLab, readings
from tests.spark.support.sink_lab import NAME, SinkLab
from tests.spark.support.source_driver import OFFSETS_A_BATCH, ONE, PATTERN, see_all
from tests.unit.streaming_jobs.source.source_lab import SourceLab

pytestmark = pytest.mark.slow

OF_SOURCE = kills(source_driver.PHASES, few=1)
OF_ROLL_UP = kills(rollup_driver.PHASES, few=1)
OF_SINK = kills(dying_sink.MOMENTS, few=2)
# So many that a shard has written some of them before it syncs.
SUNK_ROWS = {STAGING: 10, BEFORE: 10, WITHIN: 300_000, AFTER: 10}
# A value that is no record is written from the column that holds it as bytes, too.
BY_SCHEMA = {"valueFormat": "avro", "writerSchema": '"bytes"'}

# Those that drivers were told of, up to their end.
SERVERS = ExitStack()

Kill = tuple[int, str, int]
Job = tuple[list[Any], Any]


def job_of_source(_spark: SparkSession, place: Path, kill: Kill) -> Job:
    number, phase, batch = kill
    log = SourceLab(place / "root")
    log.create(shards=2)
    log.append(4 * OFFSETS_A_BATCH)
    log.writer.seal()
    return ["see", phase, batch, subscription(number)[0]], log


def subscription(number: int) -> tuple[str, int]:
    """Return what every other query reads, and how many batches that has in the end."""
    return ((PATTERN, 6), (ONE, 5))[number % 2]


def job_of_roll_up(_spark: SparkSession, place: Path, kill: Kill) -> Job:
    number, phase, batch = kill
    lab = RollupLab(place)
    lab.create()
    lab.measure(rolled_up()[: 2 * ROWS_A_BATCH])
    return ["roll up", phase, batch, *by_server(lab.root, number)], lab


def by_server(root: Path, number: int) -> list[str]:
    """Return the server that every other driver is told of in the path's place."""
    return [] if number % 2 else [SERVERS.enter_context(served(root, is_writable=True))]


def rolled_up() -> list[Any]:
    return readings(random.Random(3), 4 * ROWS_A_BATCH)


def job_of_sink(spark: SparkSession, place: Path, kill: Kill) -> Job:
    number, moment, batch = kill
    lab = SinkLab(spark, place)
    for primaries in sunk(moment, batch):
        lab.feed(*primaries)
    return [SINK, moment, batch, written_by(number)], None


def sunk(moment: str, batch: int) -> list[list[int]]:
    """Return the rows of both batches."""
    rows = list(range(10, 10 + SUNK_ROWS[moment]))
    return [rows, [1, 2, 3]] if batch == 0 else [[1, 2, 3], rows]


def written_by(number: int) -> dict[str, str]:
    """Return the options of a sink; half of them write by a schema."""
    return BY_SCHEMA if (number + number // 4) % 2 else {}


Prepare = Callable[[SparkSession, Path, Kill], Job]
JOBS: dict[str, tuple[Prepare, list[Kill]]] = {
    "source": (job_of_source, OF_SOURCE[:1]),
    "roll_up": (job_of_roll_up, OF_ROLL_UP[:1]),
    "sink": (job_of_sink, OF_SINK[:2]),
}


@pytest.fixture(scope="module")
def dead(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Path, Any]]]:
    """The places of all jobs whose driver has died, by name and number, and their writers."""
    place, plan, places = tmp_path_factory.mktemp("dead"), {}, {}
    for job, (prepare, first) in JOBS.items():
        for kill in first:
            name = f"{job}-{kill[0]}"
            (place / name).mkdir()
            plan[name], lab = prepare(spark, place / name, kill)
            places[name] = place / name, lab
    kill_driver(place, plan)
    SERVERS.close()
    yield places
    for _, lab in places.values():
        if lab is not None:
            lab.close()


@pytest.fixture
def killed(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[[str, Kill], tuple[Path, Any]]]:
    """Return the place of a job whose driver has died, and its writer: the first ones together."""
    made: list[Any] = []

    def kill_one(job: str, kill: Kill) -> tuple[Path, Any]:
        prepare, first = JOBS[job]
        if kill in first:
            dead: tuple[Path, Any] = request.getfixturevalue("dead")[f"{job}-{kill[0]}"]
            return dead
        (tmp_path / job).mkdir()
        plan, lab = prepare(spark, tmp_path / job, kill)
        made.append(lab)
        kill_driver(tmp_path, {job: plan})
        SERVERS.close()
        return tmp_path / job, lab

    yield kill_one
    for lab in made:
        if lab is not None:
            lab.close()


def ledger(place: Path) -> list[list[int]]:
    files = sorted((place / "ledger").glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


@pytest.mark.parametrize("kill", OF_SOURCE, ids=str)
def test_killed_driver_sees_every_row_once(spark, killed, kill):
    place, log = killed("source", kill)
    subscribed, batches = subscription(kill[0])
    before = ledger(place)
    # What comes again is in parts alone by then, and the tip has moved.
    log.writer.trim()
    log.append(OFFSETS_A_BATCH, first=4 * OFFSETS_A_BATCH)
    # Of a pattern a stream is made before the restart.
    other = SourceLab(log.root, f"{log.name}2")
    other.create(shards=2)
    other.append(OFFSETS_A_BATCH, first=5 * OFFSETS_A_BATCH)
    other.close()
    see_all(spark, place, subscribed)
    after = ledger(place)
    assert after[: len(before)] == before
    assert sorted(row for batch in after for row in batch) == list(range(batches * OFFSETS_A_BATCH))


def test_killed_drivers_leave_what_all_rows_come_to(spark, killed):
    place, lab = killed("roll_up", OF_ROLL_UP[0])
    rolled = rolled_up()
    for number, phase, batch in OF_ROLL_UP:
        if number:
            plan = ["roll up", phase, batch, *by_server(lab.root, number)]
            kill_driver(place.parent, {place.name: plan})
            SERVERS.close()
        # What comes before the restart is behind the batch that comes again.
        first = (2 + number % 2) * ROWS_A_BATCH
        lab.measure(rolled[first : first + ROWS_A_BATCH])
    lab.roll_up(spark)
    lab.check()


def schemas_of(lab: SinkLab) -> tuple[int, int]:
    """Return how many schemas are kept, and of how many rows."""
    with StreamReader.open(lab.root, NAME) as reader:
        rows = reader.read(columns=["schema_id"])
        return len(reader.schemas()), rows.num_rows - rows.column(0).null_count


@pytest.mark.parametrize("kill", OF_SINK, ids=str)
def test_rows_land_once_though_the_driver_dies(spark, killed, kill):
    number, moment, batch = kill
    place, _ = killed("sink", kill)
    lab, options = SinkLab(spark, place), written_by(number)
    batches = sunk(moment, batch)
    landed_rows = [row for rows in batches[: batch + (moment == AFTER)] for row in rows]
    assert ("manifest.json" in lab.staged) == (moment == WITHIN)
    assert lab.stored == sorted(landed_rows)
    # Half of the jobs write by a schema, which is kept exactly where its rows are.
    assert schemas_of(lab) == ((1, len(landed_rows)) if landed_rows and options else (0, 0))
    lab.run(**options)
    rows = sorted(row for each in batches for row in each)
    assert (lab.stored, lab.staged) == (rows, [])
    assert schemas_of(lab) == ((1, len(rows)) if options else (0, 0))
