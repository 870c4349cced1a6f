"""The Spark session that tests share, and that drivers of their own make alike."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def make_session(place: Path) -> SparkSession:
    """Start Spark with two task slots; what it leaves on disk goes to a place."""
    # Unset, workers run whatever python3 PATH has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master("local[2]").appName("shardlog-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(place / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
