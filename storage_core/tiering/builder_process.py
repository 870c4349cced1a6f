"""Making parts in a process of its own: orders come in, a line each, and go out as answers.

It has one core and little of it, and rests where its owner waits for one. It ends with its owner:
once nobody can send it orders any more, or another process is its parent. Signals that are meant
for the owner's whole group leave it alone, since the owner decides what is finished.
"""

import os
import select
import signal
import sys
import threading
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import Final

import pyarrow as pa

from storage_core.catalog.stream_file import read_stream
from storage_core.errors import ShardlogError
from storage_core.parts.rows_done import Handled, not_told
from storage_core.platform.clock import SystemClock
from storage_core.platform.malloc import give_back
from storage_core.platform.yielding import Yielding
from storage_core.read.cold.parts import parts_directory
from storage_core.read.follow.follower import ShardFollower
from storage_core.tiering.making import made_of, making_errors, proven, refuse_damaged, taken
from storage_core.tiering.part_work import (
    Made,
    Order,
    ProveWork,
    decode_order,
    encode_failed,
    encode_made,
)

_NICENESS: Final = 5
_LOOK_EVERY_S: Final = 1.0
_READ_BYTES: Final = 2**16


def main() -> None:
    """Do what is ordered until the owner ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICENESS)
    pa.set_cpu_count(1)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints is no answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: SimpleQueue[bytes] = SimpleQueue()
    owner = os.getppid()
    threading.Thread(target=_listen, args=(orders, owner), daemon=True).start()
    way = Yielding(owner)
    while True:
        line = orders.get()
        way.begin()
        try:
            answer = encode_made(made(decode_order(line), lambda _rows: way.step()))
        except ShardlogError as error:
            answer = encode_failed(error)
        # A step takes some hundred megabytes, and the next one may be long in coming.
        pa.default_memory_pool().release_unused()
        give_back()
        try:
            answers.write(answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)


def made(order: Order, handled: Handled = not_told) -> Made:
    """Make what was ordered, of what any reader of the shard sees.

    `handled` is called again and again on the way, behind some thousands of rows.

    Raises:
        ShardlogError: It cannot be made; of every kind of refusal, since the owner is to be told.
    """
    with making_errors(order.root / order.stream):
        return _made(order, handled)


def _made(order: Order, handled: Handled) -> Made:
    files = read_stream(order.root, order.stream)
    directory = parts_directory(files.shard_directory(order.shard))
    work = order.work
    follower = ShardFollower(files, order.shard, SystemClock())
    with making_errors(directory), closing(follower):
        if isinstance(work, ProveWork):
            return follower.shown(partial(proven, directory=directory, work=work, handled=handled))
        refuse_damaged(order.stream, order.shard, directory, work)
        found = follower.shown(partial(taken, directory=directory, work=work, handled=handled))
        # What it reads by may hold files that the owner wants to be rid of.
        follower.close()
        return made_of(found, directory, work, handled)


def _listen(orders: "SimpleQueue[bytes]", owner: int) -> None:
    """Take orders, while there may be more; end the process then, whatever it is at."""
    pipe, rest = sys.stdin.fileno(), b""
    while os.getppid() == owner:
        if not select.select([pipe], [], [], _LOOK_EVERY_S)[0]:
            continue
        read = os.read(pipe, _READ_BYTES)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
