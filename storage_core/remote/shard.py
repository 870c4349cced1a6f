"""A shard that a server is asked about: what a `ShardFollower` is to a path."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.protocol import request_values
from storage_core.read.request import ReadRequest
from storage_core.read.shard_reader import ShardFacts
from storage_core.remote.resumed_rows import resumed_rows
from storage_core.remote.stream_client import StreamClient

_BY_ADDRESS: Final = ("arrival", "replay")


class RemoteShard:
    """Answers reads of one shard by calls of a server. Any thread."""

    def __init__(self, client: StreamClient, shard: int) -> None:
        """Ask nothing yet."""
        self._client = client
        self._shard = shard

    def committed(self) -> int:
        """Return the exclusive end of the rows that reads return."""
        committed: int = self._client.result("committed")[self._shard]
        return committed

    def refresh(self) -> int:
        """Return committed; the server follows the writer."""
        return self.committed()

    def state(self) -> ShardFacts:
        """Return what the shard reports of itself now; its ledger of transactions apart."""
        facts: ShardFacts = self._client.result("state", shard=self._shard)
        return facts

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        values = {"shard": self._shard, "start": start, "end": end}
        for batch in self._client.batches("dead_letters", values):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, or those of an id, as they came."""
        return tuple(
            self._client.result("shard_schemas", shard=self._shard, registry_id=registry_id)
        )

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        # In this order: what was sealed by then is in the parts that are listed behind it.
        state = self.state()
        entries = tuple(
            part.entry for part in self._client.result("parts") if part.shard == self._shard
        )
        gaps = tuple(gap for gap in state.gaps if gap.start < state.sealed)
        return ShardParts(state.sealed, entries, state.floor, state.cut, gaps)

    def expired(self, start: int, end: int, since: int) -> list[tuple[int, int]]:
        """Return what of a range has expired after a generation, or is gone otherwise."""
        values = {"start": start, "end": end, "expired_until": since}
        ranges: list[tuple[int, int]] = self._client.result("missing", shard=self._shard, **values)
        return ranges

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; never fewer in silence, never one not committed."""
        values = request_values(request)
        if request.order not in _BY_ADDRESS:
            return self._client.batches("scan_shard", values)
        return resumed_rows(self._client, "scan_shard", values)

    def close(self) -> None:
        """Nothing is open for a shard alone."""
