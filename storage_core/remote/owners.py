"""The roots that have a stream's shards between them, and who of them owns which.

Servers are asked who they are: those of one root are asked in turn, as ever; those of several roots
have copies of one topic, each of the partitions that its worker had. An address is the offset, so
copies of one address are one record, and it does not matter who answers. What must be the same
everywhere is what a record became: topic, topic's id, and mapping.

Each `snapshot` asks every root what it has and who holds it. Who does not answer is remembered, so
that nothing it may have is left out in silence: a shard whose owner may be among the silent has no
known end, and addresses that only the silent have are not to be had. Roots that had no such stream
are asked again now and then, and at once where none of the others owns a shard. Any thread may
call.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock
from typing import Final, TypeVar

from storage_core.catalog.origin import RETRY_SHARDS_FROM
from storage_core.errors import ForeignDataError, ShardlogError, UnavailableError
from storage_core.format.keys import INT64_MIN
from storage_core.platform.clock import Clock
from storage_core.platform.threads import Threads
from storage_core.protocol import StreamFacts
from storage_core.protocol.documents import ShardExtent
from storage_core.remote.addresses import Servers
from storage_core.remote.backoff import Backoff
from storage_core.remote.client import ServerClient, Subject
from storage_core.remote.coverage import Piece
from storage_core.remote.finding import ServedStream, find, impatient, refuse_other_topics
from storage_core.remote.options import ServerOptions
from storage_core.remote.shard_view import ShardView
from storage_core.remote.stream_client import StreamClient

T = TypeVar("T")

_ASKED_AGAIN_S: Final = 1.0
# What a read says whose root falls silent, or has another log of a shard by then: one that began
# from the lake has the same records, as any copy. Another stream is found out by the next snapshot.
MOVED: Final = (UnavailableError, ForeignDataError)
_AT_ONCE_MAX: Final = 8


@dataclass(slots=True)
class Root:
    """A root that has the stream, and who asks its servers.

    Attributes:
        id: Its id.
        servers: The addresses of its servers.
        facts: What the stream is there.
        last: What was there when it answered last.
        asks: Reads rows.
        probes: Asks what is there, and waits for no silent server.
    """

    id: str
    servers: Servers
    facts: StreamFacts
    last: Mapping[int, ShardExtent]
    asks: StreamClient = field(init=False)
    probes: StreamClient = field(init=False)

    @property
    def text(self) -> str:
        """Its servers, as they are written."""
        return self.servers.text


class Owners:
    """Asks the roots that have a stream's shards between them."""

    def __init__(
        self,
        name: str,
        served: Sequence[ServedStream],
        options: ServerOptions,
        clock: Clock,
    ) -> None:
        """Take over what `find` returned, where no server was silent.

        Raises:
            ForeignDataError: Two roots have streams that are no copies of one topic.
        """
        self.name = name
        self._clock = clock
        self._options = options
        self._lock = Lock()
        self._threads = Threads(_AT_ONCE_MAX)
        self._closing: list[ServerClient] = []
        self._bytes_max = 0
        self._check_first: Callable[[], None] = lambda: None
        self._roots: list[Root] = []
        self._others = [each.servers for each in served]
        self._silent: list[Servers] = []
        self._asked_s = clock.monotonic_s()
        self._reached: dict[int, int] = {}
        # Where the logs began when nobody was silent of whom it is not known what they have.
        self._born: dict[int, int] = {}
        self._take(served, [])

    @property
    def roots(self) -> Sequence[Root]:
        """The roots that have the stream, in the order in which they were met."""
        return self._roots

    @property
    def text(self) -> str:
        """All addresses, as they are written."""
        return "; ".join([*(root.text for root in self._roots), *(s.text for s in self._others)])

    def configure(self, bytes_max: int, check_first: Callable[[], None]) -> None:
        """Let a table have so many bytes at most, and each call begin with a check."""
        self._bytes_max, self._check_first = bytes_max, check_first
        for root in self._roots:
            for asks in (root.asks, root.probes):
                asks.gather(bytes_max)
                asks.check_first(check_first)

    def snapshot(self) -> Mapping[int, ShardView]:
        """Return who has what of each shard; roots that are silent are named in it.

        Raises:
            UnavailableError: None answers.
            ForeignDataError: A root, or the stream in it, was replaced.
        """
        self._check_first()
        self._ask_others()
        roots, answers = self._extents()
        # IMPORTANT: after the roots. Who let go of a shard before it was asked has a successor that
        # may have made the stream since.
        if _has_ownerless(answers) and self._ask(
            [one for one in self._others if one not in self._silent]
        ):
            roots, answers = self._extents()
        silent = [
            (root, answer)
            for root, answer in zip(roots, answers, strict=True)
            if isinstance(answer, UnavailableError)
        ]
        if len(silent) == len(roots):
            reasons = "; ".join(error.message for _, error in silent)
            message = f"no server answers: {reasons}"
            raise UnavailableError(message, stream=self.name)
        others = [servers.text for servers in self._silent]
        numbers = sorted({number for root in roots for number in root.last})
        views = {}
        for number in numbers:
            pieces = [
                Piece(place, answer[number])
                for place, answer in enumerate(answers)
                if not isinstance(answer, UnavailableError) and number in answer
            ]
            away = {root.text: root.last[number] for root, _ in silent if number in root.last}
            # What had nothing of the shard when it answered last may have taken it since.
            unknown = [root.text for root, _ in silent if number not in root.last]
            views[number] = self._view(number, pieces, away, [*unknown, *others])
        return views

    def retried_snapshot(self) -> Mapping[int, ShardView]:
        """Return a snapshot; while no server answers, for as long as the options say."""
        backoff = self.backoff()
        while True:
            try:
                return self.snapshot()
            except UnavailableError as error:
                backoff.pause(error)

    def backoff(self) -> Backoff:
        """Return the pauses between tries, for as long as the options say."""
        return Backoff(self._clock, self._options.retry_for.total_seconds())

    def trying(self, view: ShardView, do: Callable[[ShardView], T]) -> T:
        """Do something by what is known of a shard; what is not to be had is asked for anew.

        Raises:
            UnavailableError: It was not to be had for as long as the options say.
        """
        backoff = self.backoff()
        while True:
            try:
                return do(view)
            except MOVED as error:
                view = self.next_view(view, error, backoff)

    def next_view(self, view: ShardView, error: ShardlogError, backoff: Backoff) -> ShardView:
        """Return what is known of a shard after a pause.

        Raises:
            UnavailableError: The time of the tries is over.
        """
        while True:
            backoff.pause(error)
            try:
                return self.snapshot()[view.number]
            except UnavailableError as again:
                error = again

    def learn(self) -> None:
        """Ask all roots what the stream is now, for shards and options that came since."""
        # IMPORTANT: whoever asks in another thread; that may have begun before.
        with self._lock:
            self._asked_s = self._clock.monotonic_s()
        self._ask(self._others)
        self._threads.map(_learn_of, list(self._roots))

    def close(self) -> None:
        """Close all connections."""
        for client in self._closing:
            client.close()

    # --- inside --------------------------------------------------------------------------------

    def _view(
        self,
        number: int,
        pieces: list[Piece],
        away: Mapping[str, ShardExtent],
        others: Sequence[str],
    ) -> ShardView:
        if number >= RETRY_SHARDS_FROM:
            self._refuse_two_retry_shards(number, pieces, away)
        with self._lock:
            reached, born = self._reached.get(number, 0), self._born.get(number, 0)
            view = ShardView(self.name, number, tuple(pieces), reached, born, away, tuple(others))
            if view.end > reached:
                self._reached[number] = view.end
            if not others:
                self._born[number] = view.whole.born
        return view

    def _refuse_two_retry_shards(
        self, number: int, pieces: Sequence[Piece], away: Mapping[str, ShardExtent]
    ) -> None:
        having = [self._roots[one.root].text for one in pieces if one.has_rows]
        having += [text for text, last in away.items() if last.committed > last.born]
        if len(having) > 1:
            message = (
                f"{' and '.join(having)} each have rows of retried dead letters, whose addresses "
                "are no offsets, so they are not one log: read each server by itself"
            )
            raise ForeignDataError(message, stream=self.name, shard=number)

    def _extents(self) -> tuple[list[Root], list[Mapping[int, ShardExtent] | UnavailableError]]:
        """Return the roots, and what each says now that it has."""
        roots = list(self._roots)
        return roots, self._threads.map(_extents_of, roots)

    def _ask_others(self) -> None:
        """Ask servers that have not told of the stream yet, now and then."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s - self._asked_s < _ASKED_AGAIN_S:
                return
            self._asked_s = now_s
        self._ask(self._others)

    def _ask(self, others: Sequence[Servers]) -> bool:
        """Ask servers whether they have the stream by now; tell whether one has."""
        if not others:
            return False
        served, silent = find(others, self.name, self._options, self._clock)
        self._take(served, [servers for servers, _ in silent])
        return any(each.facts is not None for each in served)

    def _take(self, served: Sequence[ServedStream], silent: Sequence[Servers]) -> None:
        with self._lock:
            # Before it is asked, a root is listed: no snapshot is without it from then on.
            for answer in served:
                same = next((root for root in self._roots if root.id == answer.root), None)
                if same is not None:
                    self._connect(same, same.servers.with_others(answer.servers))
                elif answer.facts is not None:
                    self._roots.append(self._new_root(answer, answer.facts))
                else:
                    continue
                self._others = [one for one in self._others if one != answer.servers]
            answering = [each.servers for each in served]
            still = [one for one in self._silent if one not in answering and one not in silent]
            self._silent = [one for one in (*still, *silent) if one in self._others]

    def _new_root(self, served: ServedStream, facts: StreamFacts) -> Root:
        if self._roots:
            first = self._roots[0]
            refuse_other_topics(first.facts, first.text, facts, served.servers.text)
        extents = {
            number: ShardExtent(born, born, facts.committed.get(number, born), INT64_MIN, None)
            for number, born in facts.births.items()
        }
        root = Root(served.root, served.servers, facts, extents)
        self._connect(root, served.servers)
        return root

    def _connect(self, root: Root, servers: Servers) -> None:
        root.servers = servers
        root.asks = self._client(root, replace(self._options, retry_for=timedelta(0)))
        root.probes = self._client(root, impatient(self._options))

    def _client(self, root: Root, options: ServerOptions) -> StreamClient:
        client = ServerClient(root.servers, options, self._clock)
        self._closing.append(client)
        asks = StreamClient(client, Subject(self.name))
        asks.know(root.facts, root.id)
        asks.gather(self._bytes_max)
        asks.check_first(self._check_first)
        return asks


def _has_ownerless(answers: Sequence[Mapping[int, ShardExtent] | UnavailableError]) -> bool:
    """Tell whether of some shard nobody who answers is the owner."""
    having = [answer for answer in answers if not isinstance(answer, UnavailableError)]
    numbers = {number for answer in having for number in answer}
    owned = {
        number
        for answer in having
        for number, extent in answer.items()
        if extent.holder is not None
    }
    return numbers != owned


def _extents_of(root: Root) -> Mapping[int, ShardExtent] | UnavailableError:
    try:
        extents: Mapping[int, ShardExtent] = _whatever_logs(
            root, lambda: root.probes.result("owners")
        )
    except UnavailableError as error:
        return error
    root.last = extents
    committed = {number: extent.committed for number, extent in extents.items()}
    # No other server over this root, or this one over an older copy, may be behind that.
    root.asks.know_reached(committed)
    root.probes.know_reached(committed)
    return extents


def _learn_of(root: Root) -> None:
    """Ask a root what the stream is now; while it is silent, it is what it was."""
    with suppress(UnavailableError):
        root.facts = _whatever_logs(root, lambda: root.probes.result("refresh"))
        root.asks.know(root.facts)
        root.probes.know(root.facts)


def _whatever_logs(root: Root, ask: Callable[[], T]) -> T:
    """Ask a root something; once more where a shard's log has begun anew there.

    Raises:
        ForeignDataError: The root, or the stream in it, was replaced.
    """
    try:
        return ask()
    except ForeignDataError:
        root.facts = root.probes.learn_logs()
        root.asks.know(root.facts)
        return ask()
