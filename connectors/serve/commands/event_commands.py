"""The event store of a server: opened by the first command, maintained, and closed with it.

Commands that only read need no ownership; the first that writes makes this process the owner of the
event streams, and from then on a thread seals, compacts and expires them. Any thread may ask.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import typer

from connectors.serve.figures import Figures
from storage_core import Clock, InvalidRequestError, ShardlogError
from storage_core.platform.extras import how_to_install
from typed_events.answer import Answer, Status
from typed_events.language.commands import (
    Batch,
    Command,
    Define,
    Delete,
    Flush,
    Forget,
    Ping,
    Remember,
    Store,
    Subscribe,
)
from typed_events.refusals import status_of
from typed_events.remembered.options import KEEP_ALL, KeepOptions

if TYPE_CHECKING:
    from typed_events.event_store import EventStore
    from typed_events.store.soon import SoonStored
    from typed_events.subscriptions.subscription import Subscription
    from typed_events.types.stored_types import TypesOfRoot

_MAINTAINED_EVERY_S: Final = 2.0
_END_WITHIN_S: Final = 10.0
# Bodies and lines have bounds of their own, below or above.
COMMAND_BYTES_MAX: Final = 2**26
_WRITES: Final = (Define, Store, Batch, Delete, Remember, Forget, Flush)
_WITHOUT_ROWS: Final = (*_WRITES, Ping)


def writes(command: Command) -> bool:
    """Tell whether a command needs the right to write."""
    return isinstance(command, _WRITES)


def asks(command: Command) -> bool:
    """Tell whether a command is answered with rows."""
    return type(command) is not Store and not isinstance(command, _WITHOUT_ROWS)


@cache
def verb_of(kind: type[Command]) -> str:
    """Return the verb of a kind of command, as metrics have it."""
    return "list" if (verb := kind.__name__.lower()) == "listtypes" else verb


@contextmanager
def _telling_what_is_missing() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        how = how_to_install(error.name or "", "events")
        if how is None:
            raise
        message = f"commands need more than is installed here: {how}"
        raise InvalidRequestError(message) from error


class EventCommands:
    """Answers commands over the event streams of a root."""

    def __init__(
        self, root: Path, clock: Clock, figures: Figures, remembered: KeepOptions = KEEP_ALL
    ) -> None:
        """Open nothing yet; `remembered` is how much SHOW answers with."""
        self._root = root
        self._clock = clock
        self._figures = figures
        self._remembered = remembered
        self._lock = threading.Lock()
        self._store: EventStore | None = None
        self._types: TypesOfRoot | None = None
        self._plain: Callable[[str, int, int], tuple[Store, int] | None] | None = None
        self._parse: Callable[[str, int], Command] | None = None
        self._stopping = threading.Event()
        self._maintainer: threading.Thread | None = None
        # Who has the event streams, once a command wanted to write.
        self.owner: str | None = None

    def parse(self, text: str) -> Command:
        """Return the command that a text is.

        Raises:
            InvalidRequestError: It is none, or what commands need is not installed.
        """
        if self._parse is None:
            with _telling_what_is_missing():
                from typed_events.language.parse import parse  # noqa: PLC0415 - servers do without

            self._parse = parse
        return self._parse(text, COMMAND_BYTES_MAX)

    def only_store(self, text: str) -> Store | None:
        """Return the STORE that a line is, read without the parser; None where it takes that.

        What is read here, `parse` reads alike.

        Raises:
            InvalidRequestError: What commands need is not installed.
        """
        if self._plain is None:
            with _telling_what_is_missing():
                from typed_events.language.store_line import plain_store  # noqa: PLC0415 - as above

            self._plain = plain_store
        plain = self._plain(text, 0, COMMAND_BYTES_MAX)
        return plain[0] if plain is not None and plain[1] == len(text) else None

    def execute(self, command: Command, poll: Callable[[], None] | None = None) -> Answer:
        """Do one command; nothing is raised.

        Args:
            command: The command.
            poll: Called some times a second while rows are searched for; what it raises ends that.
        """
        begun_s = self._clock.monotonic_s()
        answer = self._opened().execute_command(command, poll=poll)
        seconds = self._clock.monotonic_s() - begun_s
        self._count([command], [answer], seconds)
        return answer

    def execute_all(self, commands: Sequence[Command]) -> list[Answer]:
        """Do commands in their order; nothing is raised."""
        begun_s = self._clock.monotonic_s()
        answers = self._opened().execute_all(commands)
        seconds = self._clock.monotonic_s() - begun_s
        self._count(commands, answers, seconds)
        return answers

    def store_soon(
        self, stores: Sequence[Store], ended: Callable[[], object]
    ) -> "list[SoonStored]":
        """Begin STOREs and wait for none; nothing is raised.

        Args:
            stores: The commands.
            ended: Called by another thread as often as one has ended; it must not wait.
        """
        return self._opened().store_soon(stores, ended)

    def answers_soon(
        self, begun: "Sequence[tuple[SoonStored, float]]", now_s: float
    ) -> list[Answer | None]:
        """Return the answers of STOREs that were begun at some time; None for those under way."""
        store = self._opened()
        answers = [store.answer_soon(soon, now_s - begun_s) for soon, begun_s in begun]
        ended = [
            (soon.store, answer, now_s - begun_s)
            for (soon, begun_s), answer in zip(begun, answers, strict=True)
            if answer is not None
        ]
        if ended:
            commands, outcomes, seconds = zip(*ended, strict=True)
            self._count(commands, outcomes, sum(seconds))
        return answers

    def subscribe(self, command: Subscribe) -> "Subscription":
        """Return the frames of a subscription.

        Raises:
            ShardlogError: It cannot be.
        """
        begun_s = self._clock.monotonic_s()
        try:
            subscription = self._opened().subscribe(command)
        except Exception as error:
            self._count([command], [Answer(status_of(error))], self._clock.monotonic_s() - begun_s)
            raise
        self._count([command], [Answer()], self._clock.monotonic_s() - begun_s)
        return subscription

    def kinds_of_types(self) -> Mapping[str, Literal["events", "state"]]:
        """Return the kind of each type's stream; of none where commands cannot be done here.

        Raises:
            ShardlogError: The types cannot be read.
        """
        with self._lock:
            if self._types is None:
                try:
                    from typed_events.types.stored_types import (  # noqa: PLC0415 - as above
                        TypesOfRoot,
                    )
                except ModuleNotFoundError:
                    return {}
                self._types = TypesOfRoot(self._root)
        types = self._types.current()
        return {
            name: "events" if types.type_of(name).event_type.ttl_s is None else "state"
            for name in types.names
        }

    def close(self) -> None:
        """Store what waits, and give the streams up."""
        self._stopping.set()
        with self._lock:
            store, self._store = self._store, None
            maintainer = self._maintainer
        if maintainer is not None:
            maintainer.join(_END_WITHIN_S)
        if store is not None:
            try:
                store.close()
            except ShardlogError as error:
                typer.echo(f"shardlog: closing the event streams: {error}", err=True)

    def _opened(self) -> "EventStore":
        with self._lock:
            if self._store is None:
                with _telling_what_is_missing():
                    from typed_events.event_store import EventStore  # noqa: PLC0415 - as above
                    from typed_events.store.options import (  # noqa: PLC0415 - as above
                        EventStoreOptions,
                    )

                options = EventStoreOptions(
                    remembered_rows_max=self._remembered.rows,
                    remembered_age_max=self._remembered.age,
                )
                self._store = EventStore.open(self._root, options=options)
            if self._stopping.is_set():
                # Its commands are answered that it is closed.
                self._store.close()
            return self._store

    def _count(
        self, commands: Sequence[Command], answers: Sequence[Answer], seconds: float
    ) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        stored = 0
        statuses = [answer.status for answer in answers]
        kinds = Counter(zip(map(type, commands), statuses, strict=True))
        for (kind, status), count in kinds.items():
            counts[verb_of(kind), status.value] += count
            stored += count if kind is Store and status is Status.OK else 0
        if len(kinds) > 1 or (Store, Status.OK) not in kinds:
            pairs = zip(commands, statuses, strict=True)
            done = (command for command, status in pairs if status is Status.OK)
            stored += sum(_events_of(command) for command in done)
        self._figures.commanded(counts, seconds, stored)
        last = next((at for at in reversed(range(len(commands))) if writes(commands[at])), None)
        if last is not None:
            self._note_owner(answers[last])

    def _note_owner(self, answer: Answer) -> None:
        # FLUSH, REMEMBER and FORGET may go well though another process is the owner.
        if self._opened().is_owner:
            self.owner = "this server"
            if self._maintainer is None:
                self._begin_to_maintain()
        elif answer.status is Status.BUSY:
            self.owner = answer.message

    def _begin_to_maintain(self) -> None:
        with self._lock:
            if self._maintainer is None and not self._stopping.is_set():
                self._maintainer = threading.Thread(
                    target=self._maintain, name="shardlog-events", daemon=True
                )
                self._maintainer.start()

    def _maintain(self) -> None:
        failed = ""
        while not self._stopping.wait(_MAINTAINED_EVERY_S):
            try:
                self._opened().maintain()
                failed = ""
            except ShardlogError as error:
                if str(error) != failed and not self._stopping.is_set():
                    failed = str(error)
                    typer.echo(f"shardlog: maintaining the event streams: {error}", err=True)


def _events_of(command: Command) -> int:
    match command:
        case Batch(stores):
            return len(stores)
        case _:
            return 0
