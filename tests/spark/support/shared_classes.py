"""The classes that Spark loads, parsed and verified once for all JVMs of tests.

    options = class_archive()           ["-XX:SharedArchiveFile=…/spark-classes-….jsa", …]

To load them takes half of the processor time in which Spark starts and runs its first query. A JVM
that ends by itself can leave its classes in an archive, which others map into memory. It is made
when first asked for, once for each environment and JVM, and lies in the environment, of whose jars
it is. A JVM holds it to these jars, and goes on without one that is of others.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark

from tests.mutants.watching import REPORT
from tests.tidy.tree import ROOT

_MAKE_MAX_S = 300.0
_HEX_CHARS = 12
# Of a class that no archive can have a JVM would tell on the standard output.
_SILENT = "-Xlog:disable"


@cache
def class_archive() -> tuple[str, ...]:
    """Return the options of a JVM that has the archive; none where it cannot be made."""
    place = archive_place()
    if place is None:
        return ()
    with suppress(OSError, subprocess.SubprocessError):
        if not place.exists():
            _make(place)
    return (f"-XX:SharedArchiveFile={place}", _SILENT) if place.exists() else ()


def archive_place() -> Path | None:
    """Return where the archive lies or is to be made; None where there is to be none.

    One is for the PySpark of the environment, none for another that lies before it, and none for a
    mutant's copy: through its link the archive would be of paths that no later run has.
    """
    if REPORT in os.environ or not Path(pyspark.__path__[0]).is_relative_to(sys.prefix):
        return None
    java = os.environ.get("JAVA_HOME", "") + "/bin/java"
    java = os.path.realpath(java if Path(java).is_file() else shutil.which("java") or "")
    of = f"{java} {Path(java).stat().st_mtime_ns if java else ''} {pyspark.__path__}"
    name = f"spark-classes-{sha256(of.encode()).hexdigest()[:_HEX_CHARS]}.jsa"
    return Path(sys.prefix) / name


def _make(place: Path) -> None:
    """Make it, one process at a time."""
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            return
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="classes-") as draft:
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "tests.spark.support.shared_classes",
                    draft,
                    f"{draft}/{place.name}",
                ],
                check=True,
                cwd=ROOT,
                capture_output=True,
                timeout=_MAKE_MAX_S,
            )
            (Path(draft) / place.name).rename(place)


def main(place: Path, archive: str) -> None:
    """Do what tests do, and let the JVM leave its classes as it ends."""
    from tests.spark.support.lab import SparkLab  # noqa: PLC0415 - both need a session
    from tests.spark.support.session import JVM, QUICK, make_session  # noqa: PLC0415
    from tests.spark.support.sink_lab import SinkLab  # noqa: PLC0415

    options = f"{JVM} -XX:ArchiveClassesAtExit={archive} {_SILENT}"
    spark = make_session(place, settings={**QUICK, "spark.driver.extraJavaOptions": options})
    lab = SparkLab(spark, place / "source")
    lab.log.create()
    lab.log.append(10)
    lab.run(startingOffsets="earliest")
    rows = lab.read(startingOffsets="earliest")
    rows.groupBy("partition").count().orderBy("partition").collect()
    rows.write.parquet(str(place / "parquet"))
    spark.read.parquet(str(place / "parquet")).join(rows, "offset").count()
    lab.clean_up()
    sink = SinkLab(spark, place / "sink")
    sink.write([1, 2])
    sink.feed(3)
    sink.run()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_MAKE_MAX_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
