"""Calls of a server: who of several is asked, what is tried again, and who must have answered.

A call that nobody answered may be made again, of the same server or of the next in the list: it
reads, or writes what is written once however often it is asked for. That goes on for as long as
`retry_for` says, with pauses that grow. What a server answers is never tried again, but for that it
cannot answer now; who holds a shard it says at once. Of an answer that breaks off while
rows of it are read nothing is asked anew here: who has seen some of them gets an error. Where rows
come by address, resumed_rows.py goes on behind the last.

The server that answered last is asked first. Any thread may call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

import pyarrow as pa

from storage_core.errors import (
    ClosedError,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
    UnsupportedFormatError,
)
from storage_core.platform.clock import Clock
from storage_core.protocol import (
    AUTHORIZATION,
    CALLS,
    COMPRESSION,
    PROTOCOL,
    PROTOCOL_NUMBER,
    ROOT,
    Call,
    RowStream,
    bearer,
    decode_result,
    encode_body,
    encode_query,
    error_from_answer,
)
from storage_core.read.rows import Collected
from storage_core.remote.addresses import Servers
from storage_core.remote.backoff import Backoff
from storage_core.remote.connections import (
    ANSWER_CUT,
    TRANSPORT_ERRORS,
    Answer,
    Connections,
    translated,
)
from storage_core.remote.exchange import Question
from storage_core.remote.options import TOKEN_FILE_VARIABLE, ServerOptions

T = TypeVar("T")

_WHERE_A_TOKEN_IS: Final = f"set {TOKEN_FILE_VARIABLE} to a file with a token"
# A longer query is sent as a body.
_QUERY_LENGTH_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class Subject:
    """What calls are about, and what has to be the same there as it was.

    Attributes:
        stream: The stream; None for calls of the server.
        archived: The lineage of an archived log, or what it begins with.
        identity: The headers by which a server refuses who means another root, stream or log.
    """

    stream: str | None = None
    archived: str | None = None
    identity: tuple[tuple[str, str], ...] = ()


class RowAnswer:
    """The batches of an answer, as they come. An iterator, of one thread; close it."""

    def __init__(self, answer: Answer) -> None:
        """Read the schema."""
        self._answer = answer
        with self._closing_on_errors():
            self._stream = RowStream(answer.source(), answer.address.text)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._stream.schema

    @property
    def result(self) -> Any:  # noqa: ANN401 - JSON
        """What the call returned beside rows; there once all of them were read."""
        return self._stream.result

    def __iter__(self) -> "RowAnswer":
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch.

        Raises:
            ShardlogError: What the server met meanwhile, by its type.
            UnavailableError: The answer was cut.
        """
        with self._closing_on_errors():
            batch = next(self._stream, None)
        if batch is None:
            self._answer.finish()
            raise StopIteration
        return batch

    def table(self, bytes_max: int) -> pa.Table:
        """Return all rows, if they come to no more bytes (0: any number)."""
        collected = Collected(bytes_max)
        with closing(self):
            for batch in self:
                collected.add(batch)
        return pa.Table.from_batches(collected.batches, schema=self.schema)

    def close(self) -> None:
        """Leave the rest."""
        self._answer.close()

    @contextmanager
    def _closing_on_errors(self) -> Iterator[None]:
        try:
            yield
        except TRANSPORT_ERRORS as error:
            # Arrow, too, says so of bytes that are missing.
            self._answer.close()
            raise translated(error, self._answer.address, ANSWER_CUT) from error
        except BaseException:
            self._answer.close()
            raise


class ServerClient:
    """What asks the servers over one root."""

    def __init__(self, servers: Servers, options: ServerOptions, clock: Clock) -> None:
        """Connect to none yet.

        Raises:
            InvalidRequestError: The token or the certificates cannot be read.
        """
        context = options.tls_context() if servers.is_encrypted else None
        self._servers = servers
        self._options = options
        self._clock = clock
        self._token = options.current_token()
        self._connections = [
            Connections(
                address,
                options.connect_timeout.total_seconds(),
                options.timeout.total_seconds(),
                context,
            )
            for address in servers.addresses
        ]
        self._first = 0
        self._interrupts = 0

    @property
    def addresses(self) -> str:
        """The servers as they are written."""
        return self._servers.text

    @property
    def resumes(self) -> bool:
        """Whether calls that nobody answered are made again."""
        return bool(self._options.retry_for)

    def result(
        self,
        name: str,
        subject: Subject,
        values: Mapping[str, object] | None = None,
        patience_s: float = 0.0,
    ) -> Any:  # noqa: ANN401 - each call has its own
        """Return what a call returns that answers in JSON."""
        return self.result_and_root(name, subject, values, patience_s)[0]

    def result_and_root(
        self,
        name: str,
        subject: Subject,
        values: Mapping[str, object] | None = None,
        patience_s: float = 0.0,
        rows: pa.Buffer | None = None,
    ) -> tuple[Any, str | None]:
        """Return it with the id of the root that the server is over; `rows` are what it takes."""
        call = CALLS[name]

        def decoded(answer: Answer) -> tuple[Any, str | None]:
            return decode_result(call, answer.body()), answer.header(ROOT)

        question = _question(call, subject, values or {}, rows)
        return self._called(question, subject, decoded, patience_s)

    def roots(self) -> dict[str, str]:
        """Return the root of each server that answers, by its address.

        Raises:
            UnavailableError: None does, for as long as is tried.
        """
        question = _question(CALLS["server"], Subject(), {})
        backoff = Backoff(self._clock, self._options.retry_for.total_seconds())
        while True:
            roots: dict[str, str] = {}
            failed: list[UnavailableError] = []
            for connections in self._connections:
                try:
                    answer = self._answer(connections, question, Subject(), 0.0)
                    answer.body()
                except UnavailableError as error:
                    failed.append(error)
                    continue
                roots[connections.address.text] = answer.header(ROOT) or ""
            if roots:
                return roots
            backoff.pause(none_answered(failed))

    def rows(
        self, name: str, subject: Subject, values: Mapping[str, object] | None = None
    ) -> RowAnswer:
        """Return the rows of a call, as they come."""
        question = _question(CALLS[name], subject, values or {})
        return self._called(question, subject, RowAnswer)

    def table(
        self, name: str, subject: Subject, values: Mapping[str, object], bytes_max: int = 0
    ) -> tuple[pa.Table, Any]:
        """Return all rows of a call, and its result; an answer that was cut is asked for again."""

        def whole(answer: Answer) -> tuple[pa.Table, Any]:
            rows = RowAnswer(answer)
            return rows.table(bytes_max), rows.result

        return self._called(_question(CALLS[name], subject, values), subject, whole)

    def interrupt(self) -> None:
        """End the calls that are under way: they fail, and are not made again. From any thread.

        Call it again until they have ended: one that connects just now is not reached.
        """
        self._interrupts += 1
        for connections in self._connections:
            connections.interrupt()

    def close(self) -> None:
        """Close all connections; answers that are still read close theirs."""
        for connections in self._connections:
            connections.close()

    def _called(
        self,
        question: Question,
        subject: Subject,
        decoded: Callable[[Answer], T],
        patience_s: float = 0.0,
    ) -> T:
        backoff = Backoff(self._clock, self._options.retry_for.total_seconds())
        interrupts = self._interrupts
        while True:
            try:
                return self._one_round(question, subject, decoded, patience_s)
            except ShardLockedError:
                raise
            except UnavailableError as error:
                if self._interrupts != interrupts:
                    raise
                backoff.pause(error)

    def _one_round(
        self,
        question: Question,
        subject: Subject,
        decoded: Callable[[Answer], T],
        patience_s: float,
    ) -> T:
        """Ask each server until one answers."""
        count, first = len(self._connections), self._first
        failed: dict[int, UnavailableError] = {}
        for turn in range(count):
            place = (first + turn) % count
            try:
                value = decoded(
                    self._answer(self._connections[place], question, subject, patience_s)
                )
            except ShardLockedError:
                # It is locked for all of them.
                self._first = place
                raise
            except UnavailableError as error:
                failed[place] = error
                continue
            self._first = place
            return value
        raise none_answered([failed[place] for place in sorted(failed)]) from failed[0]

    def _answer(
        self, connections: Connections, question: Question, subject: Subject, patience_s: float
    ) -> Answer:
        token = self._token
        answer = connections.ask(question, self._headers(subject, token), patience_s)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # Its file may hold another by now.
            self._token = self._options.current_token()
            if self._token != token:
                answer.close()
                answer = connections.ask(question, self._headers(subject, self._token), patience_s)
        if answer.status != HTTPStatus.OK:
            raise _refusal(answer)
        spoken = answer.header(PROTOCOL)
        if spoken != str(PROTOCOL_NUMBER):
            # Of headers that were cut nothing is said: what should follow them is missing, too.
            answer.body()
            raise _unknown_protocol(answer, spoken)
        return answer

    def _headers(self, subject: Subject, token: str | None) -> dict[str, str]:
        headers = {
            PROTOCOL: str(PROTOCOL_NUMBER),
            COMPRESSION: self._options.compression,
            **dict(subject.identity),
        }
        if token is not None:
            headers[AUTHORIZATION] = bearer(token)
        return headers


def _question(
    call: Call,
    subject: Subject,
    values: Mapping[str, object],
    rows: pa.Buffer | None = None,
) -> Question:
    parameters = call.all_parameters
    if subject.archived is not None:
        values = {**values, "archived": subject.archived}
    path = call.path(subject.stream)
    query = encode_query(parameters, values)
    if rows is not None:
        return Question("POST", f"{path}?{query}", rows)
    if len(query) > _QUERY_LENGTH_MAX or call.right == "write":
        return Question("POST", path, encode_body(parameters, values))
    return Question("GET", f"{path}?{query}" if query else path)


def _refusal(answer: Answer) -> ShardlogError:
    error = error_from_answer(answer.status, answer.body(), answer.address.text)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return InvalidRequestError(f"{answer.address.text}: {error.message}; {_WHERE_A_TOKEN_IS}")
    if isinstance(error, ClosedError):
        # What is closed there is the server, not what the caller has.
        return UnavailableError(f"{answer.address.text} is about to end: {error.message}")
    return error


def _unknown_protocol(answer: Answer, spoken: str | None) -> ShardlogError:
    if spoken is None:
        return ForeignDataError(f"{answer.address.text} answers, but is no shardlog server")
    message = (
        f"{answer.address.text} speaks protocol {spoken[:20]} of shardlog, this client "
        f"{PROTOCOL_NUMBER}: install the same version on both sides"
    )
    return UnsupportedFormatError(message)


def none_answered(errors: Sequence[UnavailableError]) -> UnavailableError:
    """Return why none of some servers has answered, as one error."""
    first = errors[0]
    if len(errors) == 1:
        return first
    reasons = "; ".join(error.message for error in errors)
    return type(first)(
        f"none of {len(errors)} servers answered: {reasons}",
        stream=first.stream,
        shard=first.shard,
        path=first.path,
        start=first.start,
        end=first.end,
    )


def identified(subject: Subject, identity: Mapping[str, str]) -> Subject:
    """Return a subject that has to be the same from now on."""
    return replace(subject, identity=tuple(sorted(identity.items())))


def of_root(subject: Subject, root: str | None) -> Subject:
    """Return a subject that has to lie in a root; None for any."""
    return subject if root is None else identified(subject, {ROOT: root})
