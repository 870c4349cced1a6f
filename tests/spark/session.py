"""The Spark session that tests share, and that drivers of their own make alike.

Spark runs a failed task again here as it does on a cluster: four times, before it gives the job up.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tests.thin import EVERY_CASE
from tests.tidy.tree import ROOT

LOCAL = "local[2,4]"
_WORKER_PATH = Path(__file__).parent / "worker_path"
# Sessions of tests are short and their data small: what Spark compiles, plans again and asks other
# programs for costs more than it saves. Spark as it comes runs the source and the sink in
# test_twins.py, a job's command in test_command_stops_at_a_signal_and_goes_on, what tests/broker
# compares with Kafka's source, and all where every case is wanted (make faults KIND=spark).
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing"
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
_WARM = {"spark.python.daemon.module": "tests.spark.warm_daemon"}
QUICK, WARM = ({}, {}) if EVERY_CASE else (_QUICK, _WARM)
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# What is quick, for the command of a job.
QUICK_ARGUMENTS = [word for pair in QUICK.items() for word in ("--conf", "=".join(pair))]


def make_session(
    place: Path, master: str = LOCAL, settings: Mapping[str, str] = QUICK
) -> SparkSession:
    """Start Spark with two task slots; what it leaves on disk goes to a place."""
    # Unset, workers run whatever python3 PATH has, and do not find what tests hand to them.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), str(_WORKER_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["SPARK_LAUNCHER_OPTS"] = JVM
    builder = SparkSession.Builder().master(master).appName("shardlog-tests")
    for name, value in {**SETTINGS, **WARM, **settings}.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
