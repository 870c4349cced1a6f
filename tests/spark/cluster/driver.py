"""A driver of the cluster: a process of its own with a session, which does what it is told.

    driver = Driver(plan)
    driver.do(count_rows, options)      count_rows(spark, options) there: its result, or DriverError
    driver.kill()                       -9, the JVM too

Functions are of modules. What one hands to executors has to be defined within it: these have no
tests.
"""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

from tests.children import start_talking_child
from tests.spark.cluster.standalone import EXECUTOR_MB, MACHINES
from tests.spark.support.session import JVM, QUICK, SETTINGS, with_classes

# A job of a crowded machine, whose executors start.
_ANSWER_MAX_S: Final = 600.0
_END_MAX_S: Final = 120.0
# PySpark 4.0 registers nothing that it finds by itself, and takes it from the same path everywhere.
REGISTERED_SINCE: Final = "4.1"
TOKEN_FILE: Final = "SHARDLOG_SERVER_TOKEN_FILE"  # noqa: S105 - a name
_PYSPARK_LIES_IN: Final = str(Path(pyspark.__path__[0]).parent)


class DriverError(Exception):
    """What was raised in a driver, as its user reads it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a driver starts.

    Attributes:
        master: The cluster's address.
        place: Where it may leave files.
        python: What its own Python processes and those of executors run.
        archive: The file that is shipped; None where that Python has shardlog.
        token_file: What it and executors name to servers.
        tries: How often a task runs before its job fails; Spark's own default.
    """

    master: str
    place: Path
    python: str
    archive: Path | None
    token_file: Path | None = None
    tries: int = 4


class Driver:
    """A process that runs a driver."""

    def __init__(self, plan: Plan) -> None:
        """Start it; its session is there when this returns."""
        self._process, self._connection = start_talking_child(_drive, plan)
        self._jvm = 0
        try:
            self._jvm = self._answer()
        except BaseException:
            self.kill()
            raise

    def do(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Run a function there, with its session before all else.

        Raises:
            DriverError: It raised something.
        """
        self._connection.send((function, arguments))
        return self._answer()

    def _answer(self) -> Any:
        assert self._connection.poll(_ANSWER_MAX_S), "the driver does not answer"
        is_done, result = self._connection.recv()
        if not is_done:
            raise DriverError(result)
        return result

    def kill(self) -> None:
        """Kill the driver."""
        if self._jvm:
            with suppress(ProcessLookupError):
                os.kill(self._jvm, signal.SIGKILL)
        self._process.kill()
        self._process.join(_END_MAX_S)
        self._connection.close()

    def end(self) -> None:
        """Let its cluster go, and end."""
        with suppress(OSError, EOFError):
            self._connection.send(None)
            self._connection.poll(_END_MAX_S)
        self.kill()


def _drive(asker: Connection, plan: Plan) -> None:
    try:
        spark = _session(plan)
        asker.send((True, _jvm_of(spark)))
    except BaseException as error:  # noqa: BLE001 - goes to the test
        asker.send((False, _text_of(error)))
        return
    while (request := _next_request(asker)) is not None:
        function, arguments = request
        answer: tuple[bool, Any]
        try:
            answer = (True, function(spark, *arguments))
        except BaseException as error:  # noqa: BLE001 - as above
            answer = (False, _text_of(error))
        asker.send(answer)
    spark.stop()
    with suppress(OSError):
        asker.send((True, None))


def _next_request(asker: Connection) -> Any:
    try:
        return asker.recv()
    except EOFError:
        return None


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _jvm_of(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _session(plan: Plan) -> SparkSession:
    for name in ("PYTHONPATH", TOKEN_FILE):
        os.environ.pop(name, None)
    if plan.token_file is not None:
        os.environ[TOKEN_FILE] = str(plan.token_file)
    if plan.archive is None:
        # The PySpark of this process, which need not be the one that its Python has.
        os.environ["PYTHONPATH"] = _PYSPARK_LIES_IN
    elif pyspark.__version__ < REGISTERED_SINCE:
        # What is not registered runs by the driver's own paths.
        os.environ["PYTHONPATH"] = str(plan.archive)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = plan.python
    os.environ["SPARK_LAUNCHER_OPTS"] = JVM
    # The driver's Python processes find what lies where they run, and are to find no shardlog here.
    os.chdir(plan.place)
    builder = SparkSession.Builder().master(plan.master).appName("shardlog-tests")
    for name, value in {**SETTINGS, **with_classes(QUICK), **settings_of(plan)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if plan.archive is not None and session.version >= REGISTERED_SINCE:
        # As docs/SPARK.md says: what is shipped is registered, so that executors find it.
        from pyspark_shardlog import DefaultSource  # noqa: PLC0415 - as a job does

        session.dataSource.register(DefaultSource)
    return session


def settings_of(plan: Plan) -> Mapping[str, str]:
    """Return the settings of a session on the cluster."""
    settings = {
        "spark.cores.max": str(len(MACHINES)),
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.executor.extraJavaOptions": with_classes({"": JVM})[""],
        "spark.task.maxFailures": str(plan.tries),
        "spark.local.dir": str(plan.place / "local"),
        "spark.sql.warehouse.dir": str(plan.place / "warehouse"),
        # Each machine has one of the tasks that wait for it.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    if plan.archive is None:
        settings["spark.executorEnv.PYTHONPATH"] = _PYSPARK_LIES_IN
    else:
        settings["spark.submit.pyFiles"] = str(plan.archive)
    if plan.token_file is not None:
        settings[f"spark.executorEnv.{TOKEN_FILE}"] = str(plan.token_file)
    return settings
