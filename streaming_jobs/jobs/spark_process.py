"""Spark for a job's command: its start, what its process says meanwhile, and its end.

Spark's process says six lines while it starts, of which a job's user needs none, and a Java stack
where it does not. So they are held back until it has started: then they are discarded, or printed
if its own log was asked for, and what comes after is passed on as it comes. Where it does not
start, the one of them that says why is the error. Left out are tracebacks of Spark's Python
processes whose other side was closed first, as at the end of a query: no row depends on them.
"""

import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import pyspark.java_gateway
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from storage_core import InvalidRequestError
from streaming_jobs.common.spark_features import register_source
from streaming_jobs.data_source import ShardlogSource
from streaming_jobs.jobs.spark_failures import SPARK_ERRORS, failure_of

_LOG_LEVEL: Final = "spark.log.level"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
_END_WAIT_S: Final = 10.0
_LINES_MAX: Final = 1000
# What says why a process of Java ends at its start, the plainest first.
_WHYS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r'^Exception in thread "main" [\w.$]+: (.+)$',
        r"^(?:Invalid|Unrecognized|Conflicting|Too small|Unable|JAVA_HOME)\b.*$",
        r"^(?:Error|ERROR): (.+)$",
        r"^.*(?:not found|No such file).*$",
    )
)
_TRACEBACK: Final = "Traceback (most recent call last):"
# How a process of Python ends whose other side was closed first.
_CLOSED: Final = ("BrokenPipeError", "ConnectionResetError", "EOFError")
_untyped: Any = pyspark.java_gateway


class RunningSpark:
    """A session, and the process behind it where this one has started it."""

    def __init__(self, session: SparkSession, gateway: Any, said: "_Said | None") -> None:  # noqa: ANN401 - py4j's
        """Take over a session that runs."""
        self.session = session
        self._gateway = gateway
        self._said = said

    def hush(self) -> None:
        """Pass on nothing more of what the process says, which is about to be broken off."""
        if self._said is not None:
            self._said.end()

    def stop(self) -> None:
        """End the session and its process; one that has ended by itself is no fault."""
        self.hush()
        with suppress(*SPARK_ERRORS, OSError):
            self.session.stop()
        if self._said is None:
            return
        with suppress(*SPARK_ERRORS, OSError):
            self._gateway.shutdown()
        process = self._gateway.proc
        with suppress(OSError):
            process.stdin.close()
        # Whoever starts the job again at once finds none of its processes.
        self._said.join(_END_WAIT_S)


def start_spark(name: str, master: str, settings: dict[str, str]) -> RunningSpark:
    """Start Spark on this machine, or join the one that `spark-submit` has started.

    Its processes are in a group of their own: Ctrl-C is for the job, which lets the batch at hand
    be committed; Spark's Python processes would end with it in the middle of one.

    Raises:
        InvalidRequestError: It does not start, as it was asked.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # It logs what it also raises, in part under no name of its own.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    conf = SparkConf()
    for key, value in _settings(name, master, settings).items():
        conf.set(key, value)
    said = None if _GATEWAY in os.environ else _Said(is_wanted=_LOG_LEVEL in settings)
    try:
        gateway = _launched(conf, said)
        context = SparkContext(conf=conf, gateway=gateway)
        if _LOG_LEVEL not in settings:
            context.setLogLevel("OFF")
        session = SparkSession.builder.getOrCreate()
        # Its settings are looked at once they are used.
        session.range(0)
        # Where shardlog is shipped, no process of Spark but this one finds it by itself.
        register_source(session, ShardlogSource)
    except SPARK_ERRORS as error:
        message = f"Spark does not start: {_why(error, said)}"
        raise InvalidRequestError(message) from error
    if said is not None:
        said.release()
    return RunningSpark(session, gateway, said)


def _settings(name: str, master: str, settings: dict[str, str]) -> dict[str, str]:
    defaults = {
        "spark.app.name": f"shardlog {name}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        **settings,
    }
    if _GATEWAY in os.environ:
        return defaults
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {"spark.master": master, _LOG_LEVEL: "OFF", **defaults}


def _why(error: Exception, said: "_Said | None") -> str:
    """Return why Spark does not start: its process's word where that has ended, or Spark's own."""
    is_of_spark = isinstance(error, CapturedException | Py4JJavaError)
    if is_of_spark or said is None:
        return failure_of(error)[0]
    return said.why() or f"its process ended; --conf {_LOG_LEVEL}=ERROR may show why"


def _launched(conf: SparkConf, said: "_Said | None") -> Any:  # noqa: ANN401 - py4j's
    """Start the process of Java, whose standard error goes to whoever listens."""
    popen_options: dict[str, Any] = {"start_new_session": True}
    if said is None:
        return _untyped.launch_gateway(conf, popen_options)
    reading, writing = os.pipe()
    said.start(reading)
    try:
        return _untyped.launch_gateway(conf, {**popen_options, "stderr": writing})
    finally:
        os.close(writing)


class _Said:
    """The standard error of the process: held back until it has started, then passed on by line."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._held: deque[str] = deque(maxlen=_LINES_MAX)
        self._is_wanted = is_wanted
        self._is_released = False
        self._lock = threading.Lock()
        self._listener: threading.Thread | None = None

    def start(self, descriptor: int) -> None:
        """Begin to listen; the descriptor is closed at the process's end."""
        # A daemon: whoever ends at once does not wait for a process that ends as well.
        self._listener = threading.Thread(target=self._listen, args=(descriptor,), daemon=True)
        self._listener.start()

    def release(self) -> None:
        """Pass on what comes from here on, and what was held back if it is wanted."""
        with self._lock:
            self._is_released = True
            if self._is_wanted:
                sys.stderr.writelines(self._held)
            self._held.clear()

    def end(self) -> None:
        """Pass nothing on from here on: Spark is about to be ended."""
        with self._lock:
            self._is_released = False

    def join(self, seconds: float) -> None:
        """Wait until the process has ended, and all it said is passed on."""
        if self._listener is not None:
            self._listener.join(seconds)

    def why(self) -> str | None:
        """Return what the process that has ended said of why."""
        self.join(_END_WAIT_S)
        with self._lock:
            held = [line.strip() for line in self._held]
        for pattern in _WHYS:
            for line in held:
                match = pattern.match(line)
                if match:
                    return match[match.lastindex or 0]
        return None

    def _listen(self, descriptor: int) -> None:
        with os.fdopen(descriptor, errors="replace") as lines:
            for said in _said_whole(lines):
                with self._lock:
                    if self._is_released:
                        sys.stderr.writelines(said)
                    else:
                        self._held.extend(said)


def _said_whole(lines: Iterable[str]) -> Iterator[list[str]]:
    """Return lines one by one, a traceback as a whole, and none of a side that was closed."""
    traceback: list[str] = []
    for line in lines:
        if traceback or line.startswith(_TRACEBACK):
            traceback.append(line)
            if line.startswith((" ", _TRACEBACK)) and len(traceback) < _LINES_MAX:
                continue
            if not line.startswith(_CLOSED):
                yield traceback
            traceback = []
        else:
            yield [line]
    if traceback:
        yield traceback
