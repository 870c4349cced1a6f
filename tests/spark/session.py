"""The Spark session that tests share, and that drivers of their own make alike.

Spark runs a failed task again here as it does on a cluster: four times, before it gives the job up.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tests.tidy.tree import ROOT

LOCAL = "local[2,4]"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def make_session(
    place: Path, master: str = LOCAL, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark with two task slots; what it leaves on disk goes to a place."""
    # Unset, workers run whatever python3 PATH has, and do not find what tests hand to them.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    builder = SparkSession.Builder().master(master).appName("shardlog-tests")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
