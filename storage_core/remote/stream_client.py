"""The calls of one stream: those of a client, about the same stream of the same root each time.

What the stream was when it was opened goes along with each call, so that a server refuses it where
another root, another stream of the name or another log of a shard has taken its place. So does how
far the client was told that shards are committed: another server that is behind that, since it sees
the files later or is over an older copy, is not believed.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from storage_core.protocol import (
    INCARNATION,
    LINEAGES,
    REACHED,
    ROOT,
    StreamFacts,
    encode_lineages,
    encode_reached,
)
from storage_core.remote.client import ServerClient, Subject, identified, of_root

# Of more shards at once, those of a thousand, it is not said: a server takes 16 KiB of headers.
_REACHED_LENGTH_MAX: Final = 8192


class StreamClient:
    """Asks about one stream. Any thread may call."""

    def __init__(self, client: ServerClient, subject: Subject) -> None:
        """Ask about a stream that is not known yet; use `opened`."""
        self._client = client
        self._subject = subject
        self._root: str | None = None
        self._bytes_max = 0
        self._learning = Lock()
        self._reached: dict[int, int] = {}
        self._reached_text = ""
        self._refuse_if_closed: Callable[[], None] = lambda: None

    @classmethod
    def opened(
        cls, client: ServerClient, name: str, archived: str | None, root: str | None = None
    ) -> tuple["StreamClient", StreamFacts]:
        """Return what asks about a stream, and what the stream is.

        Args:
            client: What asks the servers.
            name: The stream.
            archived: The lineage of an archived log.
            root: The id of the root that it lies in; None for that of whoever answers.

        Raises:
            InvalidRequestError: There is no such stream, or archived log.
            ForeignDataError: A server is over another root.
            UnavailableError: No server answers.
        """
        asks = cls(client, of_root(Subject(name, archived), root))
        facts, asks._root = client.result_and_root("facts", asks._subject)
        asks.know(facts)
        return asks, facts

    @property
    def addresses(self) -> str:
        """The servers that are asked."""
        return self._client.addresses

    @property
    def resumes(self) -> bool:
        """Whether what was cut may be asked for again."""
        return self._client.resumes

    @property
    def root(self) -> str:
        """The id of the root."""
        return self._root or ""

    def know(self, facts: StreamFacts, root: str | None = None) -> None:
        """Let each call say that the stream is this one, of this root."""
        self._root = root or self._root
        identity = {INCARNATION: facts.incarnation, LINEAGES: encode_lineages(facts.lineages)}
        if self._root is not None:
            identity[ROOT] = self._root
        self._subject = identified(self._subject, identity)
        self.know_reached(facts.committed)

    def learn_logs(self) -> StreamFacts:
        """Return what the stream is now, whichever logs its shards have; let calls say so."""
        same = tuple(item for item in self._subject.identity if item[0] != LINEAGES)
        facts: StreamFacts = self._client.result("facts", replace(self._subject, identity=same))
        self.know(facts)
        return facts

    def know_reached(self, committed: Mapping[int, int]) -> None:
        """Let calls say that shards are committed so far at least."""
        with self._learning:
            reached = self._reached
            news = {n: end for n, end in committed.items() if end > reached.get(n, 0)}
            if news:
                self._reached = {**reached, **news}
                self._reached_text = encode_reached(self._reached)

    def gather(self, bytes_max: int) -> None:
        """Let a table have so many bytes at most; 0 for what the server gives."""
        self._bytes_max = bytes_max

    def check_first(self, refuse_if_closed: Callable[[], None]) -> None:
        """Let each call begin with a check that may raise."""
        self._refuse_if_closed = refuse_if_closed

    def result(self, name: str, patience_s: float = 0.0, **values: object) -> Any:  # noqa: ANN401 - each call has its own
        """Return what a call returns that answers in JSON."""
        self._refuse_if_closed()
        result = self._client.result(name, self._about(values), values, patience_s)
        if name == "committed":
            self.know_reached(result)
        return result

    def table(self, name: str, values: Mapping[str, object]) -> tuple[pa.Table, Any]:
        """Return all rows of a call, and its result."""
        self._refuse_if_closed()
        return self._client.table(name, self._about(values), values, self._bytes_max)

    def batches(
        self, name: str, values: Mapping[str, object]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a call as they come; it is made when the first is asked for."""
        self._refuse_if_closed()
        with closing(self._client.rows(name, self._about(values), values)) as rows:
            while True:
                # Before it, too: a fork must take nothing of what its parent reads.
                self._refuse_if_closed()
                batch = next(rows, None)
                self._refuse_if_closed()
                if batch is None:
                    return
                yield batch

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _about(self, values: Mapping[str, object]) -> Subject:
        """Return the subject of a call, with how far its shards are known to reach."""
        shard, text = values.get("shard"), self._reached_text
        if isinstance(shard, int):
            end = self._reached.get(shard)
            text = "" if end is None else encode_reached({shard: end})
        if not text or len(text) > _REACHED_LENGTH_MAX:
            return self._subject
        subject = self._subject
        return replace(subject, identity=(*subject.identity, (REACHED, text)))
