"""A staging area by another door: rows are sent to a server, which stages them.

    area = StagingClient.open("shardlog://a:8085,b:8085", name)
    writer = area.writer(id)            rows of one attempt, sent some 32 MiB at a time
    parts = writer.finish()             durable there
    area.land(batch, waiting)           the server opens the shards, publishes and finishes

Names, results and errors are those of a `StagingArea`. Every call may be made again, of any of the
servers, whatever became of the one before: rows that were staged twice are files that nobody
publishes, and a transaction is made once. It needs pyarrow and xxhash.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_meta import encode_options
from storage_core.errors import (
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
)
from storage_core.format.contents import Contents, encode_contents
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.window import Unit
from storage_core.platform.arrow import concat
from storage_core.platform.clock import Clock, SystemClock
from storage_core.protocol import INCARNATION, ROOT, encode_rows
from storage_core.remote.addresses import parse_servers
from storage_core.remote.client import ServerClient, Subject, identified, of_root
from storage_core.remote.one_root import refuse_several_roots
from storage_core.remote.options import ServerOptions
from storage_core.transactions.documents import (
    Decided,
    StagingFacts,
    decode_decided,
    decode_facts,
    decode_staged,
)
from storage_core.transactions.manifest import Parts, attempt_of, attempts_of
from storage_core.transactions.series import Mark, TransactionId
from storage_core.transactions.staged_batch import StagedBatch, Waiting
from storage_core.transactions.staged_rows import StagedRows, with_schemas_noted

T = TypeVar("T")

# As many as a task by path has in memory, so that ranges of shards are as large.
_SENT_BYTES: Final = 32 * 2**20
_BATCH_BYTES: Final = 2 * 2**20
# Each batch that is sent takes some hundred bytes beside its rows, and time at both ends.
_BATCHES_APART_MAX: Final = 1024
# Who waits for a shard asks again as often, so that a server waits for nobody who is gone.
_WAIT_AT_ONCE_S: Final = 5.0
# A server answers such calls within its own `landing_s`, beside the wait.
_LANDING_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.05
_PURPOSE_MAX: Final = 1000
# Of parts; the body of a request takes some 350,000, and each takes a server the read of a note.
_NAMED_MAX: Final = 20_000
# What no attempt is called: with it a transaction that is done is told from one that cannot be.
_NOBODYS: Final = "0" * 16
_ONE_IS_WRITTEN: Final = "rows are written to one"


class StagingClient:
    """A stream at a server as those see it who stage rows for it. Any thread; close it."""

    def __init__(
        self, client: ServerClient, name: str, root_id: str, facts: StagingFacts, clock: Clock
    ) -> None:
        """Take over a client; use `open`."""
        self._client = client
        self._facts = facts
        self._clock = clock
        identity = {ROOT: root_id, INCARNATION: facts.incarnation}
        self._subject = identified(Subject(name), identity)
        self.root_id = root_id

    @classmethod
    def open(
        cls,
        servers: str,
        name: str,
        *,
        options: ServerOptions | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Ask servers for a stream.

        Raises:
            InvalidRequestError: There is no such stream, or the server does not let us write.
            UnavailableError: No server answers.
        """
        time = clock or SystemClock()
        client = ServerClient(parse_servers(servers), options or ServerOptions(), time)
        try:
            document, root_id = client.result_and_root("staging", Subject(name))
            return cls(client, name, root_id or "", _read(decode_facts, document), time)
        except BaseException:
            client.close()
            raise

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    @property
    def incarnation(self) -> str:
        """The random id made with the stream."""
        return self._facts.incarnation

    @property
    def unit(self) -> Unit:
        """What primaries count."""
        return self._facts.options.unit

    @property
    def jitter(self) -> int:
        """How far behind its id's largest primary a row may come and still be normal."""
        return self._facts.options.jitter

    @property
    def shards(self) -> int:
        """The number of shards of a stream without an origin."""
        return self._facts.options.shards

    @property
    def options(self) -> StreamOptions:
        """The options in force when it was opened."""
        return self._facts.options

    @property
    def origin(self) -> StreamOrigin | None:
        """What the stream is a copy of; such a stream takes no staged rows."""
        return self._facts.origin

    def writer(self, transaction: TransactionId) -> "RemoteStagingWriter":
        """Begin an attempt at a transaction.

        Raises:
            InvalidRequestError: The stream has an origin.
        """
        if self.origin is not None:
            message = "the stream has an origin; its rows come from there alone"
            raise InvalidRequestError(message, stream=self._subject.stream)
        return RemoteStagingWriter(self, transaction)

    def stage(self, transaction: TransactionId, rows: pa.Buffer) -> Parts:
        """Have the rows of an Arrow stream staged; durable on return."""
        document, _ = self._client.result_and_root(
            "stage", self._subject, _values_of(transaction), rows=rows
        )
        return _read(decode_staged, document)

    def is_decided(self, transaction: TransactionId) -> bool:
        """Tell whether a transaction was published, finished or passed by its series."""
        return self._decided(transaction).is_decided

    def mark(self, series: str) -> Mark | None:
        """Return how far a series has come, None if nothing of it is finished."""
        return self._decided(TransactionId(series, 0)).mark

    def contents(self, transaction: TransactionId) -> Contents | None:
        """Return what a decided transaction held, None where that is not known (any more)."""
        return self._decided(transaction).contents

    def claim(self, name: str, owner: str, *, takes_over: bool = False) -> str:
        """Give a name to an owner unless it has another; return the owner."""
        return str(self._result("claim", {"name": name, "owner": owner, "takes_over": takes_over}))

    def discard(self, transaction: TransactionId, parts: Iterable[Parts]) -> None:
        """Remove the files of attempts that are not, and will not be, in the transaction."""
        attempts = sorted({name for each in parts for name in attempts_of(each)})
        for some in _some_of(attempts):
            self._result("discard", {**_values_of(transaction), "attempts": some})

    def land(self, batch: StagedBatch, waiting: Waiting) -> int:
        """Make staged parts the transaction, durable and visible, unless it was decided before.

        Servers that are gone are waited for as other writers are.

        Returns:
            How many rows are late among themselves, where it was too large to be sorted as one.

        Raises:
            ShardLockedError: Another writer kept a shard for too long; nothing was decided.
            ForeignDataError: It was decided with other contents.
        """
        transaction, contents, wait_s = batch.transaction, batch.contents, waiting.wait_s
        texts, few = _texts_of(batch.parts), list[str]()
        nobodys = [f"{shard}:{_NOBODYS}" for shard in batch.parts]
        values = {
            **_values_of(transaction),
            "contents": None if contents is None else _text_of(contents),
            "purpose": waiting.purpose[:_PURPOSE_MAX],
            "keeps": waiting.is_kept,
        }
        deadline_s = self._clock.monotonic_s() + wait_s
        while True:
            left_s = max(0.0, deadline_s - self._clock.monotonic_s())
            wait_at_once_s = min(left_s, _WAIT_AT_ONCE_S)
            try:
                few = few or self._few(transaction, texts)
                answer = self._result(
                    "land",
                    {**values, "parts": few or nobodys, "wait": wait_at_once_s},
                    wait_at_once_s + _LANDING_PATIENCE_S,
                )
            except ShardLockedError as error:
                if self._clock.monotonic_s() >= deadline_s:
                    raise _waited(error, wait_at_once_s, wait_s) from error
                self._clock.sleep(_PAUSE_S)
                continue
            except UnavailableError:
                if self._clock.monotonic_s() >= deadline_s:
                    raise
                self._clock.sleep(_PAUSE_S)
                continue
            if answer["is_done"]:
                return int(answer["late"])

    def refuse_other_roots(self) -> None:
        """Refuse a list of servers of which some are over another root.

        Raises:
            InvalidRequestError: They are.
        """
        refuse_several_roots(self._client, _ONE_IS_WRITTEN, self._subject.stream)

    def _few(self, transaction: TransactionId, texts: list[str]) -> list[str]:
        """Return texts for the same parts, as many as a request takes; none where they are gone."""
        while len(texts) > _NAMED_MAX:
            few: list[str] = []
            for some in _some_of(texts):
                values = {**_values_of(transaction), "parts": some}
                try:
                    name = self._result("collect", values, _LANDING_PATIENCE_S)
                except UnavailableError:
                    return []
                few += [f"{shard}:{name}" for shard in dict.fromkeys(map(_shard_of, some))]
            assert len(few) < len(texts), "a stream has fewer shards than a request names"
            texts = few
        return texts

    def _decided(self, transaction: TransactionId) -> Decided:
        return _read(decode_decided, self._result("decided", _values_of(transaction)))

    def _result(self, name: str, values: dict[str, Any], patience_s: float = 0.0) -> Any:  # noqa: ANN401 - each call has its own
        return self._client.result(name, self._subject, values, patience_s)


class RemoteStagingWriter:
    """Sends one attempt's rows for all shards of a stream; one thread at a time.

    Memory stays bounded: rows are sent before they are more than a bound.
    """

    def __init__(self, area: StagingClient, transaction: TransactionId) -> None:
        """Send nothing yet."""
        self._area = area
        self._transaction = transaction
        self._pending: list[pa.RecordBatch] = []
        self._schemas: tuple[SchemaEntry, ...] = ()
        self._bytes = self._apart = 0
        self._staged: list[Parts] = []

    def write(self, batch: pa.RecordBatch, *, schemas: Sequence[SchemaEntry] = ()) -> None:
        """Take a batch, its rows and schemas as those of `Stream.append_batch`.

        Its memory must stay as it is until `finish`.

        Raises:
            InvalidRequestError: The server says that the rows do not fit.
        """
        is_like = not self._pending or (
            batch.schema == self._pending[0].schema and tuple(schemas) == self._schemas
        )
        if not is_like:
            self._send()
        self._schemas = tuple(schemas)
        for piece in _cut(batch, _BATCH_BYTES):
            if self._pending and self._bytes + piece.nbytes > _SENT_BYTES:
                self._send()
            self._pending.append(piece)
            self._bytes += piece.nbytes
            self._apart += 1
            if self._apart == _BATCHES_APART_MAX:
                self._pending[-self._apart :] = [concat(self._pending[-self._apart :])]
                self._apart = 0

    def finish(self) -> dict[int, tuple[StagedRows, ...]]:
        """Have all rows staged, durably, and tell what each shard has in which file."""
        self._send()
        by_shard: dict[int, tuple[StagedRows, ...]] = {}
        for staged in self._staged:
            for shard, parts in staged.items():
                by_shard[shard] = (*by_shard.get(shard, ()), *parts)
        return dict(sorted(by_shard.items()))

    def close(self) -> None:
        """Nothing is open."""

    def abandon(self) -> None:
        """Have what was staged removed."""
        self._pending, self._bytes, self._apart = [], 0, 0
        staged, self._staged = self._staged, []
        # What made us abandon it is told; what cannot be removed goes with the transaction.
        with suppress(ShardlogError):
            self._area.discard(self._transaction, staged)

    def _send(self) -> None:
        if not self._pending:
            return
        schema = with_schemas_noted(self._pending[0].schema, self._schemas)
        sink = pa.BufferOutputStream()
        for message in encode_rows(schema, self._pending):
            sink.write(message)
        self._staged.append(self._area.stage(self._transaction, sink.getvalue()))
        self._pending, self._bytes, self._apart = [], 0, 0


def create_by_server(servers: str, name: str, options: StreamOptions) -> None:
    """Have a stream made.

    Raises:
        InvalidRequestError: The name is bad or taken, the servers are over several roots, or do
            not let us write.
    """
    client = ServerClient(parse_servers(servers), ServerOptions(), SystemClock())
    usual = encode_options(StreamOptions())
    chosen = {key: value for key, value in encode_options(options).items() if value != usual[key]}
    try:
        # Before anything is made: of several roots it would be in the one that is asked first.
        root = refuse_several_roots(client, _ONE_IS_WRITTEN, name)
        client.result("create", of_root(Subject(name), root), {"options": json.dumps(chosen)})
    finally:
        client.close()


def _values_of(transaction: TransactionId) -> dict[str, Any]:
    return {"series": transaction.series, "number": transaction.number}


def _texts_of(parts: Parts) -> list[str]:
    """Return shards and the attempts that have rows of them, in the order of the rows."""
    return [
        f"{shard}:{attempt}"
        for shard, staged in parts.items()
        for attempt in dict.fromkeys(map(attempt_of, staged))
    ]


def _shard_of(text: str) -> str:
    return text.partition(":")[0]


def _some_of(texts: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(texts), _NAMED_MAX):
        yield texts[first : first + _NAMED_MAX]


def _text_of(contents: Contents) -> str:
    rows, digest = encode_contents(contents)
    return f"{rows}:{digest}"


def _waited(error: ShardLockedError, at_once_s: float, wait_s: float) -> ShardLockedError:
    """Return the error with how long was waited in all."""
    reason = error.message.removeprefix(f"waited {at_once_s:g} s: ")
    return ShardLockedError(
        f"waited {wait_s:g} s: {reason}", stream=error.stream, shard=error.shard
    )


def _read(decode: Callable[[Any], T], document: object) -> T:
    """Return what a document says.

    Raises:
        ForeignDataError: Somebody else has answered.
    """
    try:
        return decode(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"what was answered is not what a shardlog server returns: {error}"
        raise ForeignDataError(message) from error


def _cut(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch that are no larger, as far as rows can be told apart."""
    if batch.nbytes <= bytes_max or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half), bytes_max)
    yield from _cut(batch.slice(half), bytes_max)
