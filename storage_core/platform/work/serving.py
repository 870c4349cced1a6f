"""What a process does that works for another one: it reads orders, a line each, and answers.

It takes one core, and yields it where its owner waits for one. It ends with its owner:
once nobody can send it orders any more, or another process is its parent. Signals that are meant
for the owner's whole group leave it alone, since the owner decides what is finished.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import ShardlogError
from storage_core.platform.malloc import give_back
from storage_core.platform.work.messages import decode_message, encode_message
from storage_core.platform.yielding import Yielding

_NICENESS: Final = 5
_LOOK_EVERY_S: Final = 1.0
_READ_BYTES: Final = 2**16

_OnRows = Callable[[int], None]


def serve_orders(answer_of: Callable[[Any, _OnRows], object]) -> None:
    """Do what is ordered until the owner ends.

    Args:
        answer_of: Does what an order says and returns the answer, or raises a `ShardlogError`,
            which is the answer then. It calls what it is given again and again on the way, with
            how many rows it has done since.
    """
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
            answer = encode_message(answer_of(decode_message(line), lambda _rows: way.step()))
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
