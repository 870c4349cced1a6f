"""What interrupts exports and imports: an exception between two chunks, and kill -9 at any sync."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.children import run_script
from tests.thin import EVERY_CASE

# With the variable set each sync has its turn; else a few, spread over them.
STEP = 1 if os.environ.get("SHARDLOG_FAULT_COLD") else 9 if EVERY_CASE else 17
CALLS_MAX = 200


class StopError(Exception):
    """What interrupts an export."""


def stopped_at(count: int) -> Callable[[int], None]:
    """Return what is told of progress, and has enough once so many rows are done."""

    def progress(done: int) -> None:
        if done >= count:
            raise StopError

    return progress


def killed(statement: str, number: int) -> bool:
    """Run a statement in a process that is killed before a file or directory is synced."""
    script = f"""
import os, signal
count = 0
usual = os.fsync
def fsync(descriptor):
    global count
    if count == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    usual(descriptor)
os.fsync = fsync
from storage_core.export import export_stream
from storage_core.export import import_stream
{statement}
os._exit(0)
"""
    ended = run_script(script)
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


def killed_before(root: Path, name: str, call: str, number: int, statement: str) -> bool:
    """Run a statement about an open `stream` in a process that is killed before a call.

    The call is one of the file system's, or of the store's (`write`, `sync`); `number` pass.
    """
    script = f"""
import os, signal
from storage_core import Stream
from storage_core.engine.rocksdb import RocksDbStore
count = 0
def counted(usual):
    def call(*args, **options):
        global count
        if count == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        return usual(*args, **options)
    return call
stream = Stream.open({str(root)!r}, {name!r})
place = RocksDbStore if {call!r} in ("write", "sync") else os
setattr(place, {call!r}, counted(getattr(place, {call!r})))
{statement}
os._exit(0)
"""
    ended = run_script(script)
    assert ended in (0, -signal.SIGKILL)
    return ended != 0
