"""A query that ends is quiet: what Spark's planning process still says is for nobody.

The test is Spark's other side: it starts the process that plans for a query, hands it a source,
and closes the socket, as a query does that ends.
"""

import os
import socket
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.serializers import CPickleSerializer, read_int, write_int, write_with_length

from streaming_jobs.data_source import ShardlogSource
from tests.unit.streaming_jobs.source.source_lab import NAME, SourceLab

SECONDS_MAX = 600
RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
INITIAL_OFFSET = 884


def hand_over(file: Any, log: SourceLab) -> None:
    """Begin as Spark does: the process's number, versions, files, the source, its columns."""
    read_int(file)
    source = ShardlogSource({"path": str(log.root), "stream": NAME})
    write_with_length("{}.{}".format(*sys.version_info).encode(), file)
    write_with_length(str(log.root).encode(), file)
    write_int(0, file)
    write_with_length(CPickleSerializer().dumps(source), file)
    write_with_length(source.schema().json().encode(), file)
    write_int(1000, file)
    file.flush()
    assert read_int(file) == 0


def said_at_the_end(log: SourceLab, call: int) -> str:
    """Return what the process says when its socket is closed behind a call."""
    # A path of a socket has 107 bytes at most, fewer than some folders of tests.
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        place = f"{folder}/socket"
        listener.bind(place)
        listener.listen()
        listener.settimeout(SECONDS_MAX)
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": place}
        command = [sys.executable, "-m", RUNNER]
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as file:
                hand_over(file, log)
                write_int(call, file)
                file.flush()
                read_int(file)
            return process.communicate(timeout=SECONDS_MAX)[1].decode()


def test_query_that_ends_leaves_no_traceback(tmp_path):
    log = SourceLab(tmp_path / "root")
    log.create()
    log.append(3)
    assert said_at_the_end(log, INITIAL_OFFSET) == ""
    log.close()


def test_stop_for_another_reason_is_not_quiet(tmp_path):
    log = SourceLab(tmp_path / "root")
    log.create()
    stderr = sys.stderr
    log.tail().stop()
    assert sys.stderr is stderr
    log.close()
