"""The store of events of a root: the whole language behind one call, `execute`."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Self

from storage_core import Environment, PartBuilder, TieringReport
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.remote.addresses import refuse_servers
from typed_events.answer import Answer
from typed_events.errors import CommandError, NotFoundError
from typed_events.language.commands import (
    Batch,
    Command,
    Define,
    Delete,
    Describe,
    Explain,
    Flush,
    Forget,
    ListTypes,
    Ping,
    Plot,
    Query,
    Remember,
    Replay,
    Show,
    Store,
    Subscribe,
)
from typed_events.language.parse import parse
from typed_events.query.fields import FieldsOfTypes
from typed_events.query.queries import Queries
from typed_events.refusals import refusal
from typed_events.remembered.options import KeepOptions
from typed_events.remembered.remembered_queries import RememberedQueries
from typed_events.store.answers import (
    batch_answer,
    defined_answer,
    deleted_answer,
    stored_answer,
    stream_answer,
    type_answer,
    types_answer,
)
from typed_events.store.definitions import define
from typed_events.store.maintenance import maintain
from typed_events.store.options import EventStoreOptions
from typed_events.store.owned_streams import OwnedStreams
from typed_events.store.soon import SoonStored, begin_stores
from typed_events.store.storing import Outcome, store_batch, store_each
from typed_events.store.writer import Writer
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.subscribed_batches import SubscribedBatches
from typed_events.subscriptions.subscription import Subscription
from typed_events.subscriptions.subscriptions import Subscriptions
from typed_events.types.stored_types import StoredTypes, TypesOfRoot, no_such_type


class EventStore(Closing):
    """Commands over the event streams of a root. Any thread may call it; a context manager.

    What only reads needs no ownership. The first command that writes locks all event streams until
    the store is closed; where another process has them, it is answered Busy.

    Example:
        >>> with EventStore.open(root) as store:
        ...     answer = store.execute('DEFINE order FIELDS { amount: "int" }')
        ...     answer = store.execute('STORE order FOR c-1 PAYLOAD { "amount": 5 }')
        >>> answer.message
        'stored at 0:0'
    """

    def __init__(
        self,
        root: Path,
        writer: Writer,
        environment: Environment,
        keep: KeepOptions,
        subscriptions: SubscriptionOptions | None,
    ) -> None:
        """Answer for a root; use `open`."""
        self._writer = writer
        self._clock = environment.clock
        self._types = TypesOfRoot(root)
        clock = environment.clock
        fields = FieldsOfTypes(self._current_types)
        self._queries = Queries(root, types=fields, clock=clock)
        self._remembered = RememberedQueries(root, self._queries, keep, clock)
        self._subscriptions = Subscriptions(root, subscriptions, fields, clock)
        writer.stored = self._subscriptions.wake

    @classmethod
    def open(
        cls,
        root: str | PathLike[str],
        *,
        options: EventStoreOptions | None = None,
        subscriptions: SubscriptionOptions | None = None,
        environment: Environment | None = None,
    ) -> Self:
        """Open a store; nothing is made or locked before a command needs it.

        Args:
            root: The directory that holds the streams; DEFINE makes it if it is not there.
            options: How it is kept.
            subscriptions: How subscriptions are kept.
            environment: Time and disks, for tests.
        """
        refuse_servers(root)
        place, outside = Path(root).absolute(), environment or Environment(purpose="typed events")
        options = options or EventStoreOptions()
        keep = KeepOptions(options.remembered_rows_max, options.remembered_age_max)
        return cls(place, Writer(place, options, outside), outside, keep, subscriptions)

    @property
    def is_owner(self) -> bool:
        """Whether this store has locked the event streams, as whoever stores does."""
        return self._writer.types is not None

    def execute(self, text: str, session: object | None = None) -> Answer:
        """Do one command; what is wrong with it is in the answer, and nothing is raised.

        Args:
            text: The command.
            session: Whose it is; commands so far need nothing of it.
        """
        try:
            command = parse(text)
        except Exception as error:  # noqa: BLE001 - a front end gets an answer, whatever it is
            return refusal(error)
        return self.execute_command(command, session)

    def execute_command(
        self,
        command: Command,
        session: object | None = None,
        poll: Callable[[], None] | None = None,
    ) -> Answer:
        """Do one command that was parsed; nothing is raised.

        Args:
            command: The command.
            session: Whose it is; commands so far need nothing of it.
            poll: Called some times a second while rows of a query are searched for, by the thread
                that waits for them; what it raises ends the query. None for nothing.
        """
        del session
        try:
            self._writer.refuse_if_closed()
            return self._answer(command, poll)
        except Exception as error:  # noqa: BLE001 - a front end gets an answer, whatever it is
            return refusal(error)

    def execute_all(self, commands: Sequence[Command]) -> list[Answer]:
        """Do commands in their order; nothing is raised.

        STOREs and DELETEs that follow each other are committed together; each is stored by itself
        or not.
        """
        answers: list[Answer] = []
        pending: list[Store | Delete] = []
        for command in commands:
            if type(command) is Store or isinstance(command, Delete):
                pending.append(command)
                continue
            answers += self._answer_each(pending)
            answers.append(self.execute_command(command))
            pending = []
        return answers + self._answer_each(pending)

    def store_soon(self, stores: Sequence[Store], ended: Callable[[], object]) -> list[SoonStored]:
        """Begin STOREs and wait for none; nothing is raised. `answer_soon` answers each.

        They become durable as those of `execute` do, in groups.

        Args:
            stores: The commands, each by itself.
            ended: Called by another thread as often as one has ended; it must neither wait nor
                fail.
        """
        try:
            self._writer.refuse_if_closed()
            return begin_stores(stores, self._current_types(), self._writer, ended)
        except Exception as error:  # noqa: BLE001 - a front end gets an answer, whatever it is
            return [SoonStored(store, error=error) for store in stores]

    def answer_soon(self, begun: SoonStored, waited_s: float = 0.0) -> Answer | None:
        """Return the answer of a STORE that was begun; None as long as there is none.

        One that waited too long, as told, is answered that it did.
        """
        begun.give_up(waited_s, self._writer)
        outcome = begun.outcome()
        return None if outcome is None else self._answer_of(outcome)

    def subscribe(self, command: str | Subscribe) -> Subscription:
        """Return the frames of a SUBSCRIBE: rows, checkpoints, and what else it tells.

        Args:
            command: The command, as text or parsed.

        Raises:
            CommandError: It is no SUBSCRIBE, names what is not there, or begins where nothing is.
            NotFoundError: There is no such type.
            BusyError: There are too many subscriptions.
            ClosedError: The store is closed.
        """
        parsed = parse(command) if isinstance(command, str) else command
        if not isinstance(parsed, Subscribe):
            message = "only SUBSCRIBE is subscribed to; execute does the other commands"
            raise CommandError(message)
        self._writer.refuse_if_closed()
        return self._subscriptions.subscribe(parsed)

    def maintain(self, builder: PartBuilder | None = None) -> dict[str, TieringReport]:
        """Expire, seal, compact and trim what is due in the event streams, a bounded step in each.

        Call it again and again, from a thread of its own; pause where all reports are idle.

        Args:
            builder: A process that builds the files of parts; None for doing so here.

        Returns:
            The report of each stream; none where nothing was ever defined.

        Raises:
            UnavailableError: Another process owns the streams, or a shard was held for too long.
            ClosedError: The store is closed.
        """
        if not self._writer.is_root():
            return {}
        return maintain(self._writer.call(_themselves), builder)

    @override
    def close(self) -> None:
        """Store what waits, end subscriptions, close the streams; closing twice is fine.

        Raises:
            ShardlogError: The last commit failed, or a stream could not be closed.
        """
        if not self._writer.is_of_this_process:
            # All is the parent's: DuckDB's threads, too, which a fork does not have.
            return
        with ExitStack() as closing:
            closing.callback(self._queries.close)
            closing.callback(self._writer.close)
            self._subscriptions.close()

    def _answer(  # noqa: PLR0911 - one for each command
        self, command: Command, poll: Callable[[], None] | None
    ) -> Answer:
        match command:
            case Store() | Delete():
                return self._answer_each([command])[0]
            case Batch(stores):
                types = self._current_types()
                return batch_answer(self._explained(store_batch(stores, types, self._writer)))
            case Define():
                return self._define(command)
            case ListTypes():
                types = self._current_types()
                return types_answer(types, self._queries.others.listed(types.names))
            case Describe(name):
                return self._describe(name)
            case Query() | Replay() | Explain() | Plot():
                return self._queries.answer(command, poll)
            case Flush():
                return self._flush()
            case Subscribe():
                frames = self.subscribe(command)
                return Answer(schema=frames.schema, batches=SubscribedBatches(frames))
            case Ping():
                return Answer(message="PONG")
            case _:
                return self._answer_of_remembered(command)

    def _answer_of_remembered(self, command: Command) -> Answer:
        match command:
            case Remember():
                return self._remembered.remember(command)
            case Show():
                return self._remembered.show(command)
            case Forget():
                return self._remembered.forget(command)
            case _:
                verb = type(command).__name__.upper()
                message = f"{verb} is not available yet"
                raise CommandError(message)

    def _answer_each(self, stores: Sequence[Store | Delete]) -> list[Answer]:
        if not stores:
            return []
        try:
            outcomes = store_each(stores, self._current_types(), self._writer)
        except Exception as error:  # noqa: BLE001 - a front end gets an answer, whatever it is
            return [refusal(error) for _ in stores]
        return [
            # As most are: an event that was stored.
            stored_answer(outcome.position)
            if outcome.position is not None and type(outcome.store) is Store
            else self._answer_of(outcome)
            for outcome in outcomes
        ]

    def _describe(self, name: str) -> Answer:
        types = self._current_types()
        if versions := types.versions(name):
            return type_answer(versions)
        others = self._queries.others
        names = others.names(types.names)
        if name in names:
            return stream_answer(others.described(name))
        raise no_such_type(name, [*types.names, *names])

    def _answer_of(self, outcome: Outcome) -> Answer:
        (outcome,) = self._explained([outcome])
        if outcome.error is not None:
            return refusal(outcome.error)
        assert outcome.position is not None, "what was not refused was stored"
        if isinstance(outcome.store, Delete):
            return deleted_answer(outcome.position)
        return stored_answer(outcome.position)

    def _explained(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Return outcomes; where there is a stream in place of a type, with what that is."""
        others = self._queries.others
        for outcome in outcomes:
            if isinstance(outcome.error, NotFoundError):
                names = self._current_types().names
                outcome.error = others.reason(outcome.error, outcome.store.event_type, names)
        return outcomes

    def _define(self, command: Define) -> Answer:
        stored, is_new = self._writer.call(
            lambda streams: define(command, streams, self._clock), makes_root=True
        )
        return defined_answer(stored, is_new=is_new)

    def _flush(self) -> Answer:
        """Wait for all that was submitted before; it is committed whenever it is answered."""
        if self._writer.is_writing:
            self._writer.call(lambda _: None)
        return Answer(message="all is durable")

    def _current_types(self) -> StoredTypes:
        return self._writer.types or self._types.current()


def _themselves(streams: OwnedStreams) -> OwnedStreams:
    return streams
