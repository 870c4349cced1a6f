"""Goal: machines may be lost and partitions may move: each record is stored once, judged alike.

Method: three workers share eight partitions, each with a root that no other sees, and publish to
one lake, in a bucket of an S3 server or in a directory. Records of Avro, by three versions of a
schema, are produced meanwhile, some late, some that cannot be rows. As chance has it workers are
killed, frozen, stopped; disks are deleted; the store refuses, is slow, cuts uploads, takes a commit
and does not say so; Kafka forgets what is published. A fourth root stores the topic all alone. In
the end the lake, and the owners above it, have what the fourth has: each row once, in its order,
late where it is late there, each field in its column; each dead letter waits with an owner or is in
the dead-letter topic. SHARDLOG_BROKER_LAKE says how many rounds.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.broker.lake.ledger.machines import reaching
from tests.broker.lake.ledger.operations import KEEPING, LOSING, Chances
from tests.broker.lake.ledger.scene import Scene, behind_proxy, in_directory
from tests.broker.lake.ledger.union import columns_of, expect_union
from tests.broker.support.lab import Lab
from tests.thin import rounds

MACHINES: Final = 3
# More than are produced until all has happened.
RECORDS: Final = 1_000_000
PAUSE_S: Final = 0.5
HAPPENINGS: Final = 4
KEY_MODES: Final = ("integer", "dictionary")


@pytest.mark.parametrize("number", range(rounds("SHARDLOG_BROKER_LAKE", 3, 30)))
def test_machines_come_and_go_and_each_record_is_stored_once(
    lab: Lab, tmp_path: Path, number: int, registry: str, request: pytest.FixtureRequest
) -> None:
    lab.chance.seed(lab.chance.random() + number)
    key_mode = KEY_MODES[number // 2 % 2]
    with ExitStack() as running:
        if number % 2 == 0:
            place = in_directory(tmp_path)
        else:
            place = running.enter_context(behind_proxy(request.getfixturevalue("bucket_store")))
        running.enter_context(reaching(tmp_path / "options.toml", place.straight.options))
        scene = Scene(lab, tmp_path, place, MACHINES, key_mode, registry)
        chances = Chances(scene, [*KEEPING, *LOSING])
        try:
            run(scene, chances)
            columns = columns_of(key_mode)
            rows = expect_union(scene.machines, scene.alone, place.straight, columns, scene.values)
            dead = scene.expect_dead_letters()
        except BaseException as error:
            error.add_note(chances.story())
            raise
        assert rows.num_rows + dead == sum(scene.topic.produced.values())
        assert 1 in rows["state"].to_pylist(), "no row was late"


def run(scene: Scene, chances: Chances) -> None:
    """Let things happen while records are produced, and then all be stored."""
    with scene.lab.producing(scene.topic, RECORDS, PAUSE_S) as stop:
        try:
            chances.begin()
            for _ in range(HAPPENINGS):
                chances.happen()
            chances.lose_owner()
        finally:
            stop.set()
    chances.settle()
    assert scene.began_from_lake() > 0, "nobody began from the lake"
