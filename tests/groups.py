"""Which tests one process runs: those that share what is made slowly, a JVM most of all.

Spark's tests are three groups, each of one session, since the longest group is what a run takes at
least: the jobs; the sink and the parts; the source, and all others. Those of a cluster are a
fourth, whose sessions are processes of their own.
"""

# NOTE: xdist (3.8) marks groups in node ids, and pytest (9.2) lets it put nothing there, so that a
# mark of a group does nothing. The names stand here instead.
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

SPARK: Final = "tests/spark"
SPARK_JOBS: Final = f"{SPARK}/jobs"
SPARK_OUT: Final = (f"{SPARK}/sink", f"{SPARK}/parts")
SPARK_CLUSTER: Final = f"{SPARK}/cluster"
# These and commands start Spark by themselves.
OWN_SPARK: Final = (f"{SPARK}/sink/test_twins.py", f"{SPARK}/test_connect.py")
COMMAND: Final = "test_command_"
OF_FILES: Final = {
    "tests/broker/worker/test_broker_faults.py": "own broker",
    "tests/broker/spark/test_kafka_format.py": "Spark of Kafka",
    "tests/broker/spark/test_typed_chain.py": "Spark of Kafka",
    "tests/broker/spark/test_whole_chain.py": "Spark of Kafka",
    "tests/events/front_ends/test_doors.py": "doors",
    "tests/faults/test_damage.py": "damage",
    "tests/lake/engines/test_engines.py": "Spark of Delta",
    "tests/lake/readers/test_spark.py": "Spark of Delta",
    "tests/unit/connectors/cli/test_exit_codes.py": "exit codes",
    "tests/unit/connectors/cli/test_read_only.py": "exit codes",
    "tests/unit/mutants/test_verdicts.py": "verdicts",
    "tests/unit/storage_core/sql/test_part_files.py": "parts",
    "tests/unit/storage_core/tiering/test_build.py": "parts",
    "tests/unit/storage_core/parts/test_snapshot.py": "parts",
    "tests/versions/test_versions.py": "versions",
}


# Each file of these folders is a group: its streams of many parts are made once, and copied; or its
# browser.
FILES_OF: Final = ("tests/log/parts", "tests/log/sql", "tests/log/export", "tests/events/page")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep groups together where `--dist loadgroup` asks for groups."""
    if config.getvalue("dist") != "loadgroup":
        return None
    # What takes long begins (tests/conftest.py), and not what has many tests.
    config.option.loadscopereorder = False
    scheduler: Any = LoadGroupScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


def group_of(nodeid: str) -> str:
    """Return the group of a test; one that shares nothing is a group of its own."""
    path, _, name = nodeid.partition("::")
    file = PurePosixPath(path)
    if file.parent.as_posix() in FILES_OF:
        return path
    if not file.is_relative_to(SPARK) or path in OWN_SPARK or name.startswith(COMMAND):
        return OF_FILES.get(path, nodeid)
    if file.is_relative_to(SPARK_CLUSTER):
        return "cluster"
    if file.parent.as_posix() in SPARK_OUT:
        return "spark-3"
    return "spark-2" if file.is_relative_to(SPARK_JOBS) else "spark-1"
