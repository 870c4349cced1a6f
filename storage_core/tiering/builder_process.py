"""The process that builds parts: it reads orders, a line each, and writes answers.

It takes one core, and yields it where its owner waits for one. It ends with its owner:
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
from storage_core.parts.progress import OnRows
from storage_core.parts.snapshot import parts_directory
from storage_core.platform.clock import SystemClock
from storage_core.platform.malloc import give_back
from storage_core.platform.yielding import Yielding
from storage_core.read.follow.follower import ShardFollower
from storage_core.tiering.block_proof import prove_blocks
from storage_core.tiering.build import build, build_errors, refuse_damaged, source_rows
from storage_core.tiering.work import (
    Built,
    Order,
    ProveWork,
    decode_message,
    encode_message,
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
            answer = encode_message(built(decode_message(line), lambda _rows: way.step()))
        except ShardlogError as error:
            answer = encode_message(error)
        # A step takes some hundred megabytes, and the next one may be long in coming.
        pa.default_memory_pool().release_unused()
        give_back()
        try:
            answers.write(answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)


def built(order: Order, on_rows: OnRows) -> Built:
    """Build what was ordered, of what any reader of the shard sees.

    `on_rows` is called again and again on the way, after some thousands of rows.

    Raises:
        ShardlogError: It cannot be built; of every kind, since the owner gets it.
    """
    work = order.work
    with build_errors(order.root / order.stream):
        files = read_stream(order.root, order.stream)
        follower = ShardFollower(files, order.shard, SystemClock())
    directory = parts_directory(files.shard_directory(order.shard))
    with build_errors(directory), closing(follower):
        if isinstance(work, ProveWork):
            prove = partial(prove_blocks, directory=directory, work=work, on_rows=on_rows)
            return follower.ask(prove)
        refuse_damaged(order.stream, order.shard, directory, work)
        read = partial(source_rows, directory=directory, work=work, on_rows=on_rows)
        rows = follower.ask(read)
        # What it reads by may hold files that the owner wants to be rid of.
        follower.close()
        return build(rows, directory, work, on_rows)


def _listen(orders: "SimpleQueue[bytes]", owner: int) -> None:
    """Take orders, while there may be more; end the process then, whatever it is at."""
    pipe, rest = sys.stdin.fileno(), b""
    while os.getppid() == owner:
        if not select.select([pipe], [], [], _LOOK_EVERY_S)[0]:
            continue
        data = os.read(pipe, _READ_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
