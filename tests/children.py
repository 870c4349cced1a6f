"""Child processes of tests: a fork server that has loaded what they need makes each cheap.

There is one such server for each process that tests, begun with its first child. What a child does
is a function of a module, or a script of its own, as `python -c` runs one.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

START_MAX_S: Final = 120
_END_MAX_S: Final = 600
# Each is loaded once, and not again by each child. Nothing of Spark, which few need.
_LOADED: Final = (
    "hypothesis",
    "pytest",
    "storage_core.sql.streams",
    "storage_core.export.exporting",
    "storage_core.export.importing",
    "connectors.cli.commands.dlq",
    "connectors.cli.commands.worker",
    "tests.broker.support.replay_process",
    "tests.far_reader",
    "tests.faults.support.follower",
    "tests.faults.support.judge",
    "tests.faults.support.known_store",
    "tests.faults.support.remote",
    "tests.faults.support.writer",
)

CHILDREN: Final = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["__main__", *_LOADED])


def start_child(run: Callable[[Any], None], plan: object) -> ForkServerProcess:
    """Start a function in a process of its own; return when it is about to run."""
    here, remote = CHILDREN.Pipe(duplex=False)
    process = CHILDREN.Process(target=_run_child, args=(remote, run, plan), daemon=True)
    process.start()
    remote.close()
    assert here.poll(START_MAX_S), "the child process did not start"
    here.recv()
    return process


def start_talking_child(
    run: Callable[..., None], *plan: object
) -> tuple[ForkServerProcess, Connection]:
    """Start a function in a process of its own, with a connection to it."""
    here, remote = CHILDREN.Pipe()
    process = CHILDREN.Process(target=run, args=(remote, *plan), daemon=True)
    process.start()
    remote.close()
    return process, here


def run_script(script: str) -> int:
    """Run a script in a process of its own; return how it ended, a signal as its negative."""
    process = CHILDREN.Process(target=_run_script, args=(script,), daemon=True)
    process.start()
    process.join(_END_MAX_S)
    assert process.exitcode is not None, "the child process does not end"
    return process.exitcode


def _run_child(parent: Connection, run: Callable[[Any], None], plan: object) -> None:
    parent.send(None)
    run(plan)


def _run_script(script: str) -> None:
    exec(compile(script, "<script>", "exec"), {"__name__": "__script__"})  # noqa: S102 - a test's
