"""The Spark session that tests share, and that drivers of their own make alike.

Spark runs a failed task again here as it does on a cluster: four times, before it gives the job up.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tests.spark.support.shared_classes import class_archive
from tests.spark.support.worker_forks import python_that_forks
from tests.thin import EVERY_CASE
from tests.tidy.tree import ROOT

LOCAL = "local[2,4]"
_VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
HAS_SPLIT_FLOATS = _VERSION >= (4, 3)
_WORKER_PATH = Path(__file__).parent / "worker_path"
# Sessions of tests are short and their data small: what Spark compiles, plans again and asks other
# programs for costs more than it saves. Spark as it comes runs the source and the sink in
# test_twins.py, a command in test_roll_up.py, and all where every case is wanted (make faults
# KIND=spark).
# Where Spark has it: PySpark 4.0 has another place.
_FILES = "org.apache.spark.sql.execution.streaming" + (
    ".checkpointing" if _VERSION > (4, 0) else ""
)
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUICK = {
    "spark.driver.extraJavaOptions": JVM,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # The other one starts chmod and readlink for each file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_FILES}.FileSystemBasedCheckpointFileManager"
    ),
}
QUICK = {} if EVERY_CASE else _QUICK
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The other reader reads no floats of parts where it is false.
    "spark.sql.parquet.enableVectorizedReader": str(HAS_SPLIT_FLOATS).lower(),
}


def python_path() -> str:
    """Return where Python processes find tests, and what they do first."""
    paths = [str(ROOT), str(_WORKER_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.pathsep.join(dict.fromkeys(paths))


def prepare_environment() -> None:
    """Tell a JVM that starts what its Python processes run, and where they find tests."""
    # Unset, workers run whatever python3 PATH has, and do not find what tests hand to them.
    os.environ["PYTHONPATH"] = python_path()
    python = sys.executable if EVERY_CASE else python_that_forks()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    os.environ["SPARK_LAUNCHER_OPTS"] = JVM


def with_classes(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings whose JVMs have the classes of all others, unless one leaves its own."""
    return {
        name: f"{value} {' '.join(class_archive())}" if value == JVM else value
        for name, value in settings.items()
    }


def quick_settings() -> dict[str, str]:
    """Return what is quick, for a program that makes a session of its own."""
    return with_classes(QUICK)


def quick_arguments(*, of_spark: bool = True) -> list[str]:
    """Return what is quick for the command of a job; its JVM alone, or Spark too."""
    names = QUICK if of_spark else QUICK.keys() & {"spark.driver.extraJavaOptions"}
    pairs = [f"{name}={value}" for name, value in quick_settings().items() if name in names]
    return [word for pair in pairs for word in ("--conf", pair)]


def make_session(
    place: Path, master: str = LOCAL, settings: Mapping[str, str] = QUICK
) -> SparkSession:
    """Start Spark with two task slots; what it leaves on disk goes to a place."""
    prepare_environment()
    builder = SparkSession.Builder().master(master).appName("shardlog-tests")
    for name, value in {**SETTINGS, **with_classes(settings)}.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
