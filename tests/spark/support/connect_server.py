"""Spark Connect's own server, started as users start it, and programs that speak to it.

    with connect_server(place) as server:
        server.run("tests.spark.support.connect_client", PLACE, …)     what a client prints

What a client needs beside PySpark (gRPC, pandas) is no package of `.venv`: pyarrow would import
pandas into each of the hundreds of processes that tests start. So it lies in a directory of its
own, fetched by uv when first asked, and comes before the packages of `.venv` where it is wanted.
The server's Python processes are forks (worker_forks.py): Spark gives the one that runs the
function of a `foreachBatch` ten seconds to start, and it imports for two of processor time.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from connectors.devtools.fetch import locked
from connectors.devtools.places import jars_directory
from tests.spark.support.session import QUICK, SETTINGS, python_path, with_classes
from tests.spark.support.worker_forks import end_forks, start_forks
from tests.tidy.tree import ROOT
from tests.waiting import await_that

# PySpark before 4.3 wants pandas<3.
PACKAGES: Final = (
    *("grpcio==1.85.3", "grpcio-status==1.76.0", "googleapis-common-protos==1.76.0"),
    *("protobuf==7.36.2", "pandas==2.3.3", "python-dateutil==4.0.0", "pytz==2026.6"),
    *("six==1.17.0", "tzdata==2026.6", "zstandard==0.25.0"),
)
_FETCH_MAX_S: Final = 3600.0
_CLIENT_MAX_S: Final = 900.0
_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED: Final = re.compile(r"Spark Connect server started at: \S*?:(\d+)$", re.MULTILINE)
_WORKER: Final = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server that runs, and the environment of its clients."""

    address: str
    environment: dict[str, str]

    def run(self, module: str, *arguments: str) -> str:
        """Run a module as a client; return what it prints."""
        command = [sys.executable, "-m", module, self.address, *arguments]
        ended = subprocess.run(
            command,
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_CLIENT_MAX_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@contextmanager
def connect_server(place: Path) -> Iterator[ConnectServer]:
    """Start the server on a free port, and end it with all its processes."""
    paths = [str(connect_packages()), python_path()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    forks = start_forks(Path(tempfile.mkdtemp(prefix="forks-")), environment, (_WORKER,))
    environment |= {
        **{name: str(forks) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")},
        "SPARK_HOME": pyspark.__path__[0],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(place),
    }
    log = place / "server.log"
    with log.open("w") as said:
        server = subprocess.Popen(
            _command(place), env=environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        await_that(
            lambda: server.poll() is not None or bool(_STARTED.search(log.read_text())),
            "Spark Connect's server",
        )
        started = _STARTED.search(log.read_text())
        assert started is not None, log.read_text()
        yield ConnectServer(f"sc://127.0.0.1:{started[1]}", environment)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        # What runs the functions of batches would go on asking the server.
        end_forks(forks)


def connect_packages() -> Path:
    """Return the directory of what a client needs, which is fetched if need be."""
    name = sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    place = jars_directory().parent / "connect" / name
    if not place.is_dir():
        # Whoever holds the lock may be fetching.
        with locked(place.with_name(f"{name}.lock"), "fetching a client of Connect", _FETCH_MAX_S):
            if not place.is_dir():
                _fetch(place)
    return place


def _fetch(place: Path) -> None:
    draft = place.with_name(f"{place.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    settings = {"UV_HTTP_TIMEOUT": "600", "UV_HTTP_RETRIES": "10"}
    subprocess.run(
        [*command, "--target", str(draft), *PACKAGES],
        env={**os.environ, **settings},
        check=True,
        timeout=_FETCH_MAX_S,
    )
    draft.rename(place)


def _command(place: Path) -> list[str]:
    settings = {
        **{name: value for name, value in SETTINGS.items() if name != "spark.driver.memory"},
        **with_classes(QUICK),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    pairs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    master = ["--master", "local[2,4]", "--driver-memory", "1g"]
    return [str(submit), *master, *pairs, "--class", _SERVER, "spark-internal"]
