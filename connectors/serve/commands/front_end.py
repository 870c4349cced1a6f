"""What the front ends with sockets share: who does commands, who may, and how much of it.

A front end moves text in and answers out; which commands there are it does not know.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.calls.body_room import BodyRoom
from connectors.serve.commands.bodies import Parsed, answered
from connectors.serve.commands.event_commands import EventCommands, asks
from connectors.serve.connection import Connection, GoneError
from connectors.serve.figures import Figures
from connectors.serve.settings import Bounds
from connectors.serve.tokens import Tokens
from storage_core import Clock, InvalidRequestError, UnavailableError
from typed_events.answer import Answer, Status
from typed_events.language.commands import Subscribe

_SUBSCRIBE: Final = (
    "SUBSCRIBE is answered as long as it lasts: by GET /subscribe?command=SUBSCRIBE…, GET /ws, and "
    "by shardlog command"
)


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """What a front end works with. Any thread.

    Attributes:
        events: Who does commands.
        tokens: Who may.
        slots: Those of answers with rows.
        subscription_slots: Those of subscriptions.
        bounds: How much an answer takes.
        clock: Time.
        figures: What is counted.
        body_room: How much requests hold.
    """

    events: EventCommands
    tokens: Tokens
    slots: AnswerSlots
    subscription_slots: AnswerSlots
    bounds: Bounds
    clock: Clock
    figures: Figures
    body_room: BodyRoom

    def place_for(
        self, commands: Sequence[Parsed], connection: Connection
    ) -> AbstractContextManager[None]:
        """Have a place while the answer to commands is made and sent, if it has rows."""
        has_rows = any(
            not isinstance(entry.command, Answer) and asks(entry.command) for entry in commands
        )
        return self.slots.taking(connection) if has_rows else nullcontext()

    def answered(
        self,
        commands: Sequence[Parsed],
        authorization: str | None,
        is_unwanted: Callable[[], bool],
    ) -> Answer:
        """Do commands, once it is known that the client may.

        A query ends, also before its first rows, where nobody wants them or the time of an answer
        is over.

        Args:
            commands: The commands.
            authorization: What the client says for itself.
            is_unwanted: Tells whether nobody is there for the answer any more.

        Raises:
            RefusedError: It may not.
        """
        if any(isinstance(entry.command, Subscribe) for entry in commands):
            return Answer(Status.BAD_REQUEST, _SUBSCRIBE)
        until_s = self.clock.monotonic_s() + self.bounds.answer_s

        def poll() -> None:
            if is_unwanted():
                message = "the client went away before its answer was made"
                raise GoneError(message)
            self._refuse_late(until_s)

        may_write = partial(self.tokens.check, authorization, "write")
        return answered(commands, self.events, may_write, poll)

    def bounded(self, answer: Answer) -> Generator[pa.RecordBatch, None, None]:
        """Yield an answer's rows; where they are closed early, so is what they come from.

        Raises:
            InvalidRequestError: They have more rows than an answer may have.
            UnavailableError: They took too long.
        """
        until_s = self.clock.monotonic_s() + self.bounds.answer_s
        rows = 0
        try:
            for batch in answer.batches:
                rows += batch.num_rows
                if self.bounds.rows and rows > self.bounds.rows:
                    message = f"the answer has more than {self.bounds.rows} rows; set a LIMIT"
                    raise InvalidRequestError(message)
                self._refuse_late(until_s)
                yield batch
            self.figures.add("rows", rows)
        finally:
            close = getattr(answer.batches, "close", None)
            if close is not None:
                close()

    def _refuse_late(self, until_s: float) -> None:
        if self.clock.monotonic_s() > until_s:
            message = f"the answer took more than {self.bounds.answer_s:g} s"
            raise UnavailableError(message)
