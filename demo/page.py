"""The page over what the demo has stored: `make demo KEEP=1`.

A server over the demo's root, with some typed events beside the streams of Kafka's topic, until
Ctrl-C.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from storage_core import InvalidRequestError, SystemClock, UnavailableError
from typed_events import Answer, EventStore, Status

LISTEN: Final = "127.0.0.1:8085"
_ANY: Final = "127.0.0.1:0"
_SAYS: Final = "listening on "
_DEFINES: Final = (
    'DEFINE order FIELDS { status: ["new", "paid", "sent"], amount: "int", country: "string" }',
    'DEFINE payment FIELDS { amount: "int", provider: "string | null" }',
)
_ORDERS: Final = 600
_CUSTOMERS: Final = 40
_AT_ONCE: Final = 100
_LOOK_S: Final = 0.5
_CLOCK: Final = SystemClock()


def leave_page_up(root: Path, say: Callable[[str], None]) -> None:
    """Serve what is stored, with typed events beside it, until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        say(f"storing typed events beside it: {store_events(root):,} of orders and payments")
        with serving(root) as (address, server):
            say(f"the page is at {address}; Ctrl-C stops it, and deletes all of the demo")
            while server.poll() is None:
                _CLOCK.sleep(_LOOK_S)


def store_events(root: Path) -> int:
    """Define types and store events of them; return how many."""
    chance = Random(1)  # noqa: S311 - nothing is secret
    stores: list[str] = []
    for number in range(_ORDERS):
        customer, amount = f"customer-{chance.randrange(_CUSTOMERS)}", chance.randrange(5, 500)
        status, country = chance.choice(("new", "paid", "sent")), chance.choice(("de", "fr", "it"))
        values = f'"status": "{status}", "amount": {amount}, "country": "{country}"'
        stores.append(f"STORE order FOR {customer} PAYLOAD {{ {values} }}")
        if number % 3:
            provider = chance.choice(('"card"', '"transfer"', "null"))
            paid = f'"amount": {amount}, "provider": {provider}'
            stores.append(f"STORE payment FOR {customer} PAYLOAD {{ {paid} }}")
    with EventStore.open(root) as store:
        for command in _DEFINES:
            _checked(store.execute(command))
        for begin in range(0, len(stores), _AT_ONCE):
            batch = "; ".join(stores[begin : begin + _AT_ONCE])
            _checked(store.execute(f"BATCH [ {batch} ]"))
    return len(stores)


@contextmanager
def serving(root: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Have a server over a root; yields the address of its page, and its process."""
    for listen in (LISTEN, _ANY):
        command = (sys.executable, "-m", "connectors.cli.main", "serve", os.fspath(root))
        process = subprocess.Popen(
            [*command, "--listen", listen, "--writable"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if line.startswith(_SAYS):
                yield f"{line.removeprefix(_SAYS).partition(',')[0]}/", process
                return
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
    message = "the server did not start"
    raise UnavailableError(message)


def _checked(answer: Answer) -> None:
    if answer.status is not Status.OK:
        raise InvalidRequestError(answer.message)
