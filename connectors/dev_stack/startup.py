"""Waits until a server that was just started answers, or says why it never will."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

from connectors.dev_stack.child import last_telling_line
from connectors.dev_stack.process import Process
from storage_core import UnavailableError

START_MAX_S: Final = 60.0
# A port that was free can be taken by another before the server opens it.
PORT_TRIES_MAX: Final = 3

_LOOK_EVERY_S: Final = 0.05
_PORT_TAKEN: Final = ("Address already in use", "seems to be in use by another process")


class PortTakenError(UnavailableError):
    """Another process listens on the chosen port."""


def await_answer(
    name: str,
    process: Process,
    log: Path,
    is_answering: Callable[[], bool],
    timeout_s: float = START_MAX_S,
) -> None:
    """Return once a server answers; otherwise it is ended.

    Args:
        name: What is started, for the message.
        process: The server.
        log: Its log, quoted when it ends.
        is_answering: Asks it a real question.
        timeout_s: How long it may take.

    Raises:
        PortTakenError: It ended because its port was taken.
        UnavailableError: It ended, or did not answer in time.
    """
    deadline = monotonic() + timeout_s
    try:
        while not is_answering():
            if process.has_ended_within(_LOOK_EVERY_S):
                raise _ended(name, log)  # noqa: TRY301 - one place that ends the server
            if monotonic() > deadline:
                raise _too_slow(name, log, timeout_s)  # noqa: TRY301 - as above
    except BaseException:
        process.kill()
        raise


def _ended(name: str, log: Path) -> UnavailableError:
    told = last_telling_line(log)
    message = f"the {name} ended while it started: {told}"
    is_taken = any(words in told for words in _PORT_TAKEN)
    return (PortTakenError if is_taken else UnavailableError)(message, path=log)


def _too_slow(name: str, log: Path, timeout_s: float) -> UnavailableError:
    message = f"the {name} did not answer within {timeout_s:.0f} s: {last_telling_line(log)}"
    return UnavailableError(message, path=log)
