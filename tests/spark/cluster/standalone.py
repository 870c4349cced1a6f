"""Spark's own standalone cluster: a master, and workers on machines that do not see the disk.

    with Standalone(place) as cluster:
        cluster.disk               a folder that no machine sees
        cluster.address            spark://127.0.0.1:…
        cluster.executors(1)       the processes that run tasks on machine 1
        cluster.kill_worker(1); cluster.start_worker(1)

All are classes of the PySpark that is installed, with small heaps.
"""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import pyspark

from tests.spark.cluster.machines import Machine, Way, found_way, hide, session_of
from tests.spark.support.session import JVM
from tests.spark.support.shared_classes import class_archive
from tests.waiting import await_that

MACHINES: Final = (1, 2)
EXECUTOR_MB: Final = 512
_SPARK: Final = Path(pyspark.__path__[0])
_DEPLOY: Final = "org.apache.spark.deploy"
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_MASTER_IS: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
# A JVM of a crowded machine.
_START_MAX_S: Final = 300.0
# More than the drivers of a test take.
_CORES: Final = 4
_OPTIONS: Final = (*JVM.split(), "-Xmx512m")
_LEFT_OUT: Final = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LAUNCHER_OPTS")


class Standalone:
    """A master and its workers."""

    def __init__(self, place: Path) -> None:
        """Begin with nothing that runs."""
        self.place = place
        self.disk = place / "disk"
        self.way: Way = found_way()
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._sessions: list[int] = []
        hide(self.disk, self.way)

    def __enter__(self) -> Self:
        """Start all."""
        try:
            self.address = self._start_master()
            for number in MACHINES:
                self._begin_worker(number)
            for number in MACHINES:
                self._await_worker(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill whatever runs on a machine."""
        for leader in self._sessions:
            for pid in session_of(leader):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for worker in (*self._workers.values(), self._master):
            worker.wait()

    # --- workers ----------------------------------------------------------------------------

    def start_worker(self, number: int) -> None:
        """Start the worker of a machine; return when its master knows it."""
        self._begin_worker(number)
        self._await_worker(number)

    def kill_worker(self, number: int) -> None:
        """Kill the worker of a machine; its executors may go on for a while."""
        worker = self._workers[number]
        worker.kill()
        worker.wait()

    def worker(self, number: int) -> int:
        """Return the process of a machine's worker."""
        return self._workers[number].pid

    def executors(self, number: int) -> list[int]:
        """Return the processes that run tasks on a machine."""
        return [pid for pid in session_of(self.worker(number)) if _EXECUTOR in command_of(pid)]

    def log(self, name: str) -> str:
        """Return what a master or a worker has said."""
        return (self.place / f"{name}.log").read_text()

    # --- how they start ---------------------------------------------------------------------

    def _start_master(self) -> str:
        with (self.place / "master.log").open("wb") as said:
            self._master = subprocess.Popen(
                [
                    *self._java(f"{_DEPLOY}.master.Master"),
                    *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=self._environment(),
                start_new_session=True,
            )
        self._sessions.append(self._master.pid)
        self._await_said("master", self._master, _MASTER_IS, 1)
        match = _MASTER_IS.search(self.log("master"))
        assert match is not None
        return match[1]

    def _begin_worker(self, number: int) -> None:
        machine = Machine(f"machine-{number}", self.disk, self.way)
        # Executors of the one before may still have its place.
        work = self.place / f"{machine.name}-{len(self._sessions)}"
        (work / "local").mkdir(parents=True)
        command = [
            *self._java(f"{_DEPLOY}.worker.Worker"),
            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            *("--cores", str(_CORES), "--memory", f"{_CORES * EXECUTOR_MB}m"),
            *("--work-dir", str(work / "work"), self.address),
        ]
        log = self.place / f"{machine.name}.log"
        log.write_bytes(b"")
        environment = {**self._environment(), "SPARK_LOCAL_DIRS": str(work / "local")}
        self._workers[number] = machine.start(command, log, environment)
        self._sessions.append(self.worker(number))

    def _await_worker(self, number: int) -> None:
        self._await_said(f"machine-{number}", self._workers[number], re.compile(_REGISTERED), 1)

    def _await_said(
        self, name: str, process: "subprocess.Popen[bytes]", text: re.Pattern[str], times: int
    ) -> None:
        def is_said() -> bool:
            assert process.poll() is None, self.log(name)
            return len(text.findall(self.log(name))) >= times

        await_that(is_said, lambda: f"{name}: {text.pattern}; {self.log(name)}", _START_MAX_S)

    def _java(self, class_: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin/java") if home else "java"
        # As Spark's own scripts put it, else the archive of classes is not taken.
        first = map(str, _SPARK.glob("jars/slf4j-api-*.jar"))
        places = ":".join([f"{_SPARK}/conf", *first, f"{_SPARK}/jars/*"])
        return [java, *_OPTIONS, *class_archive(), "-cp", places, class_]

    def _environment(self) -> dict[str, str]:
        variables = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        # What the scripts of a distribution set; and a host name need not be one that is known.
        return {
            **variables,
            "SPARK_HOME": str(_SPARK),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }


def command_of(pid: int) -> bytes:
    """Return the command of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
