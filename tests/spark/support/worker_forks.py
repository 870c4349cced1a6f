"""Spark's Python processes, forked from one that has imported what they need.

    os.environ["PYSPARK_PYTHON"] = python_that_forks()

Spark starts a Python process for each session, and so for each query, and for each kind of work:
more than ten a test, each of which takes most of a second of processor time for its imports. In
place of Python it is told of a program that asks a server for a fork, hands over its arguments, its
environment and its standard files, and waits for the end of the fork. What runs there is what Spark
asked for. Arrow has a thread of its own in the server, that of its allocator, which takes care of
forks; NumPy is asked for none. The server ends with the process that started it.
"""

import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from tests.waiting import await_that

_IMPORTED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark_shardlog",
    "streaming_jobs.source.driver.ranges",
    "streaming_jobs.source.driver.tail",
    "streaming_jobs.sink.writer",
)
# Where a driver below finds the program.
_VARIABLE = "SHARDLOG_TEST_FORKS"
_SERVERS: dict[Path, subprocess.Popen[bytes]] = {}
_SIZE_BYTES = 8
_STANDARD = 3
# Python alone, without what a site adds: all that a process still takes.
_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
try:
    if sys.argv[1:2] != ["-m"]:
        raise OSError
    server.connect({place!r})
except OSError:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
asked = json.dumps([sys.argv[2:], dict(os.environ), os.getcwd()]).encode("utf-8", "surrogateescape")
socket.send_fds(server, [len(asked).to_bytes({size}, "big")], [0, 1, 2])
server.sendall(asked)
for standard in 0, 1:
    os.close(standard)
ended = server.recv(1)
sys.exit(ended[0] if ended else 1)
"""


def python_that_forks() -> str:
    """Return the program in place of Python; its server is started once for all below."""
    if _VARIABLE not in os.environ:
        place = Path(tempfile.mkdtemp(prefix="forks-"))
        os.environ[_VARIABLE] = str(start_forks(place, os.environ))
    return os.environ[_VARIABLE]


def start_forks(place: Path, environment: Mapping[str, str], imported: Sequence[str] = ()) -> Path:
    """Start a server of forks in an environment; return the program that asks it for one.

    Args:
        place: A directory for both; the server takes it away at its end.
        environment: The server's, with its path.
        imported: Modules that it imports beside the usual ones.
    """
    place.mkdir(exist_ok=True)
    listens, program = place / "socket", place / "python"
    text = _PROGRAM.format(python=sys.executable, place=str(listens), size=_SIZE_BYTES)
    program.write_text(text)
    program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.support.worker_forks", str(listens), *imported],
        stdin=subprocess.PIPE,
        env={**environment, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        start_new_session=True,
    )
    # It is left to end by itself.
    _SERVERS[program] = server
    await_that(lambda: listens.exists() or server.poll() is not None, "a server of forks")
    return program


def end_forks(program: Path) -> None:
    """End a server and all its forks, of which some may wait for who has been killed."""
    with _SERVERS.pop(program) as server:
        server.kill()
        # Spark's daemons make groups of their own, within the session.
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(place.name)) == server.pid:
                    os.kill(int(place.name), signal.SIGKILL)
    shutil.rmtree(program.parent, ignore_errors=True)


def serve(place: Path, imported: Sequence[str]) -> None:
    """Fork for whoever asks, until nobody is left who could."""
    for name in (*_IMPORTED, *imported):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(socket.AF_UNIX)
    draft = place.with_suffix(".draft")
    listening.bind(str(draft))
    listening.listen(128)
    draft.rename(place)
    while True:
        asking = wait(listening)
        if asking is None:
            break
        if os.fork() == 0:
            listening.close()
            take_over(asking)
        asking.close()
    shutil.rmtree(place.parent, ignore_errors=True)


def wait(listening: socket.socket) -> socket.socket | None:
    """Return the next who asks, or None once the process that started the server has ended."""
    poller = select.poll()
    for waited in (sys.stdin.fileno(), listening.fileno()):
        poller.register(waited, select.POLLIN)
    ready = [descriptor for descriptor, _ in poller.poll()]
    return None if sys.stdin.fileno() in ready else listening.accept()[0]


def take_over(asking: socket.socket) -> NoReturn:
    """Be the process that was asked for."""
    code = 1
    try:
        size, descriptors, _, _ = socket.recv_fds(asking, _SIZE_BYTES, _STANDARD)
        left = int.from_bytes(size, "big")
        request = bytearray()
        while len(request) < left:
            request += asking.recv(left - len(request))
        arguments, environment, directory = json.loads(request)
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        os.chdir(directory)
        become(environment)
        code = run(arguments)
    finally:
        os.write(asking.fileno(), bytes([code & 0xFF]))
        os._exit(code & 0xFF)


def become(environment: Mapping[str, str]) -> None:
    """Take over an environment and the signals of a process that begins."""
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering=1, closefd=False)  # noqa: SIM115 - to the end
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )


def run(arguments: list[str]) -> int:
    """Run a module as `python -m` does, and return the code it exits with."""
    name = arguments[0]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    loader: Any = spec.loader
    code: CodeType = loader.get_code(name)
    sys.argv = [str(spec.origin), *arguments[1:]]
    main = ModuleType("__main__")
    main.__spec__, main.__file__ = spec, spec.origin
    sys.modules["__main__"] = main
    try:
        exec(code, main.__dict__)  # noqa: S102 - the module that Spark asks for
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
