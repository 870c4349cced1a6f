"""The server of a worker: a process of its own, over the socket that the worker listens on.

    standard input    one line of JSON: root, version, the section `[serve]`, and whether there is
                      a page; then, again and again, {"lags": {"<stream>": n}}; its end is the
                      worker's, and this process stops
    standard output   one line of JSON: {"ready": true}, or {"failed": "<reason>"}
    descriptor        of the listening socket, the only argument

Signals that are meant for the worker's whole group leave it alone, since it is started with them
blocked: a worker that stops still has its streams served until it is gone. With a worker that was
killed the kernel kills this process, which would keep the address if it stood still.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

from connectors.ingest.start_checks import raise_file_limit
from connectors.serve.server import ShardServer
from connectors.serve.settings import settings_beside_worker
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core import ShardlogError
from storage_core.roots import make_root

_SWITCH_INTERVAL_S: Final = 0.000_5
# What a request makes is freed by its counts, and forms no cycles. With the defaults the collector
# walks the events of a request of 1,000 lines again and again, a quarter of what they cost.
_COLLECT_AFTER: Final = (50_000, 20, 20)
# Beyond what the server gives its last answers.
_END_WITHIN_S: Final = 15.0
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve until standard input ends."""
    _end_with_worker()
    prepare_process()
    listener = socket.socket(fileno=int(sys.argv[1]))
    line = sys.stdin.readline()
    if not line:
        return  # The worker was gone before it said what to serve.
    order = json.loads(line)
    section = WorkerServeSettings.model_validate(order["serve"])
    settings = settings_beside_worker(Path(order["root"]), section, has_page=order["page"])
    try:
        # A worker that has stored nothing yet has none; who asks is told that no stream is there.
        make_root(settings.root)
        server = ShardServer(settings, order["version"], listener=listener)
    except (ShardlogError, OSError) as error:
        _say({"failed": str(error)})
        sys.exit(1)
    with server:
        _say({"ready": True})
        # Nobody reads standard output any more, and a full pipe would hold up who prints there.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin:
            server.handler.status.note_lags(json.loads(line)["lags"])
        threading.Timer(_END_WITHIN_S, os._exit, (1,)).start()
    os._exit(0)


def prepare_process() -> None:
    """Set this process up to serve: open files, turns of threads, and what is collected when."""
    raise_file_limit()
    # A thread that comes back from a socket waits no 5 ms for one that reads.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Modules stay. Walked by the collector, they would hold up an answer now and then.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _end_with_worker() -> None:
    """Have the kernel kill this process with the thread of the worker that waits for it.

    The end of standard input says the same, but only to one that still runs.
    """
    # NOTE: it is Linux's; elsewhere the end of standard input has to do.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - the worker reads it


if __name__ == "__main__":
    main()
