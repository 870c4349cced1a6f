"""A Spark program beside the tests that answers what they ask of it: one JVM for all of a process.

    program.ask("from_avro", topic=..., ...)

It has the jars of Spark's own Kafka source and Avro functions. It takes a line of JSON a question,
and answers with one (spark_driver.py).
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any, Self

from tests.broker.support.spark_kafka import avro_jars, connector_jars
from tests.spark.support.session import JVM, python_path, quick_settings

REPOSITORY = Path(__file__).parents[3]
ANSWER_MAX_S = 600.0
_QUOTE_CHARS = 3000


def spark_environment() -> dict[str, str]:
    """Return the environment of a Spark program that makes a session of its own: quick settings."""
    quick = shlex.join(
        word for setting in quick_settings().items() for word in ("--conf", "=".join(setting))
    )
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "PYSPARK_SUBMIT_ARGS": f"{quick} pyspark-shell",
        "SPARK_LAUNCHER_OPTS": JVM,
    }


class SparkProgram:
    """The running program. One thread; a context manager that ends it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        jars = ",".join([*connector_jars(), *avro_jars()])
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.broker.support.spark_driver", jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=REPOSITORY,
                env=spark_environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Where nobody asks any more, it ends.
        with self._process:
            pass

    def ask(self, job: str, **parameters: Any) -> dict[str, Any]:
        """Have a job done, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, "parameters": parameters}) + "\n")
        self._process.stdin.flush()
        hang = Timer(ANSWER_MAX_S, self._process.kill)
        hang.start()
        try:
            line = self._process.stdout.readline()
        finally:
            hang.cancel()
        assert line, self._log.read_text()[-_QUOTE_CHARS:]
        answer: dict[str, Any] = json.loads(line)
        return answer
