"""A reader in a process of its own, asked as if it were here.

    reader = FarReader(root, "stream")
    reader.read(ids=7)          asked there, answered here
    reader.close()              the process stays, for the next one

One process serves a whole test session, one reader at a time. What it is asked goes to it by name,
and what comes back is what came there: rows, numbers, or the error. A scan comes batch by batch, as
it is taken; what `for_each` calls with each record is called here.
"""

from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from storage_core import Environment, StreamReader
from storage_core.testing import ManualClock
from tests.children import start_talking_child

_ANSWER_MAX_S: Final = 120
# What may come back for a call.
_IS, _RAISED, _BATCHES, _RECORD = "is", "raised", "batches", "record"
# What may be asked beside the reader's own calls.
_OPEN, _NEXT, _CLOSE = "open", "next", "close"


class FarReader:
    """Stands here for a reader there."""

    def __init__(self, root: Path, name: str) -> None:
        """Open it."""
        self._ask(_OPEN, root, name)

    def __getattr__(self, call: str) -> Any:
        """Return what asks the reader that is there."""
        return lambda *given, **named: self._ask(call, *given, **named)

    def for_each(
        self, ids: Any, start: Any, end: Any, fn: Callable[[Any], object], **named: Any
    ) -> None:
        """Call a function here with each record that is found there."""
        self._ask("for_each", ids, start, end, visit=fn, **named)

    def close(self) -> None:
        """Close the reader that is there."""
        self._ask(_CLOSE)

    def _ask(self, call: str, *arguments: Any, visit: Any = None, **named: Any) -> Any:
        connection = _process()
        try:
            connection.send((call, arguments, named))
            kind, answer = _heard(connection)
            while kind == _RECORD:
                connection.send(visit(answer))
                kind, answer = _heard(connection)
        except BaseException:
            # It may be anywhere in an answer; the next question begins with another one.
            _process.cache_clear()
            connection.close()
            raise
        if kind == _RAISED:
            raise answer
        return self._batches(answer) if kind == _BATCHES else answer

    def _batches(self, number: int) -> Iterator[Any]:
        while (batch := self._ask(_NEXT, number)) is not None:
            yield batch


@cache
def _process() -> Connection:
    """Start the process that serves, and return a connection to it."""
    _, connection = start_talking_child(_serve)
    return connection


def _heard(connection: Connection) -> Any:
    assert connection.poll(_ANSWER_MAX_S), "the reader in another process does not answer"
    return connection.recv()


# --- in the other process ------------------------------------------------------------------


class _Served:
    """The reader that is open, and what is being taken from it."""

    def __init__(self, asker: Connection) -> None:
        self._asker = asker
        self._reader: StreamReader | None = None
        self._taken: list[Iterator[Any]] = []

    def answer(self, call: str, arguments: Any, named: Any) -> tuple[str, Any]:
        if call in (_OPEN, _CLOSE):
            self._replace(*arguments)
            return _IS, None
        if call == _NEXT:
            return _IS, next(self._taken[arguments[0]], None)
        if call == "for_each":
            arguments = (*arguments, self._ask_with)
        answer = getattr(self._reader, call)(*arguments, **named)
        if isinstance(answer, Iterator):
            self._taken.append(answer)
            return _BATCHES, len(self._taken) - 1
        return _IS, answer

    def _replace(self, *place: Any) -> None:
        self._taken.clear()
        if self._reader is not None:
            self._reader.close()
        # Its pauses move no clock but its own.
        environment = Environment(ManualClock())
        self._reader = StreamReader.open(*place, environment=environment) if place else None

    def _ask_with(self, record: Any) -> Any:
        self._asker.send((_RECORD, record))
        return self._asker.recv()


def _serve(asker: Connection) -> None:
    served = _Served(asker)
    while True:
        try:
            call, arguments, named = asker.recv()
        except EOFError:
            return
        try:
            answer = served.answer(call, arguments, named)
        except Exception as error:  # noqa: BLE001 - raised again where it was asked
            answer = _RAISED, error
        asker.send(answer)
