"""A Spark session in a process of its own, as the benchmarks hold it: orders in, answers out.

    with spark_process(place, jars=connector_jars()) as spark:
        spark.run("drain", source="kafka", options={...}, rows=2_000_000)

Both sides of a pair run in one session, one after the other: the same JVM, equally warm, the
same two task slots. The process does one order at a time (bench/spark_child.py); its JVM goes
with it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
_END_MAX_S: Final = 20.0
_LOG_CHARS: Final = 2000


class SparkProcess:
    """The session's process. One thread."""

    def __init__(self, place: Path, jars: Sequence[str]) -> None:
        """Start it; what it leaves on disk goes to a place, what it says to a log there."""
        self._log = place / "spark.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_child", os.fspath(place), ",".join(jars)],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": os.fspath(_ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, task: str, **arguments: object) -> dict[str, float]:
        """Have one task done and return what was measured.

        Raises:
            RuntimeError: It failed; the message ends with what the process said last.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"task": task, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text(errors="replace")[-_LOG_CHARS:]
            message = f"the Spark process ended in task {task!r}; it said\n{said}"
            raise RuntimeError(message)
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it; in good order if it can, so that its JVM and workers go at once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def spark_process(workspace: Path, jars: Sequence[str] = ()) -> Iterator[SparkProcess]:
    """Start a session that ends with the block; void where there is no JVM."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        message = "void: Spark needs a JVM, 17 or later: install one, or set JAVA_HOME"
        raise SystemExit(message)
    place = workspace / "spark"
    place.mkdir()
    spark = SparkProcess(place, jars)
    try:
        yield spark
    finally:
        spark.close()
