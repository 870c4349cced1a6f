"""Which tests one process runs: those that share what starts slowly, a JVM most of all.

Spark's tests are two groups that take about as long as each other, each of one session.
"""

# NOTE: xdist (3.8) marks groups in node ids, and pytest (9.2) lets it put nothing there, so that a
# mark of a group does nothing. The names stand here instead.
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

SPARK: Final = "tests/spark"
# The files of its second group.
SECOND: Final = (
    "test_drain_late.py",
    "test_killed_drivers.py",
    "test_land_topic.py",
    "test_roll_up.py",
)
# Twins and commands start Spark by themselves.
TWINS, COMMAND = "test_twins.py", "test_command_"
OF_FILES: Final = {
    "tests/broker/test_broker_faults.py": "own broker",
    "tests/broker/test_kafka_format.py": "Spark of Kafka",
    "tests/broker/test_typed_chain.py": "Spark of Kafka",
    "tests/broker/test_whole_chain.py": "Spark of Kafka",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep groups together where `--dist loadgroup` asks for groups."""
    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler: Any = LoadGroupScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


def group_of(nodeid: str) -> str:
    """Return the group of a test; one that shares nothing is a group of its own."""
    path, _, name = nodeid.partition("::")
    folder, file = PurePosixPath(path).parent.as_posix(), PurePosixPath(path).name
    if folder != SPARK or file == TWINS or name.startswith(COMMAND):
        return OF_FILES.get(path, nodeid)
    return "spark-2" if file in SECOND else "spark-1"
