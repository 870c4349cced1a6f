"""The streams of a root as SQL reads them from servers over it.

A snapshot is one call, so it is one moment as by path. Hot rows come as a scan, which goes on where
an answer was cut; of parts the byte ranges come that DuckDB reads, which are those of the columns
and row groups that it needs. All of them are compared with their digests here, so a server need not
be believed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.parts.snapshot import Part
from storage_core.parts.visible_rows import may_hide_rows
from storage_core.platform import xxh3
from storage_core.platform.clock import SystemClock
from storage_core.protocol.snapshots import ServedGroup, ServedSnapshot
from storage_core.remote.addresses import parse_servers
from storage_core.remote.client import ServerClient, Subject, of_root
from storage_core.remote.one_root import refuse_several_roots
from storage_core.remote.options import ServerOptions
from storage_core.remote.resumed_rows import resumed_rows
from storage_core.remote.shard import RemoteShard
from storage_core.remote.stream_client import StreamClient
from storage_core.sql.access.path_streams import ReadablePart
from storage_core.sql.part_groups import PartGroup
from storage_core.sql.stream_snapshot import (
    SnapshotReads,
    StreamSnapshot,
    bounded_now,
    united_snapshot,
)

_READ_BYTES: Final = 2**24


class ServedStreams:
    """The streams of a root that servers are over. Any thread."""

    def __init__(self, servers: str, options: ServerOptions | None = None) -> None:
        """Connect to none yet.

        Raises:
            InvalidRequestError: An address, the token or a certificate is wrong.
        """
        self._servers = parse_servers(servers)
        # The id of the root, once a server has said it.
        self._root: str | None = None
        self._client = ServerClient(self._servers, options or ServerOptions(), SystemClock())

    def names(self) -> list[str]:
        """Return the names of all streams."""
        return sorted(self._client.result("streams", of_root(Subject(), self._one_root())))

    def snapshot(self, name: str) -> tuple[StreamSnapshot, Mapping[str, ReadablePart]]:
        """Return a snapshot of a stream, and its parts by path."""
        client, facts = StreamClient.opened(self._client, name, None, self._one_root())
        served: ServedSnapshot = client.result("snapshot")
        # No other server, over an older copy of the root, may be behind what the snapshot has.
        client.know_reached(served.ends)

        def hot_rows(shard: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            sealed, end = served.shards[shard].sealed, served.ends[shard]
            if sealed >= end:
                return iter(())
            places = {"start_address": sealed, "end_address": end}
            values = {"shard": shard, **places, "columns": tuple(columns), "order": "arrival"}
            return resumed_rows(client, "scan_shard", values)

        def schemas() -> Sequence[SchemaEntry]:
            return tuple(client.result("schemas"))

        def parts_of(shard: int) -> ShardParts:
            return bounded_now(served.shards[shard], served.ends[shard], RemoteShard(client, shard))

        def groups(bounded: Mapping[int, ShardParts]) -> list[PartGroup]:
            by_place = {(part.shard, part.entry.number): part for part in served.parts}
            return [_group(group, by_place, bounded) for group in served.groups]

        reads = SnapshotReads(hot_rows, parts_of, schemas, groups)
        snapshot = united_snapshot(facts.options, [*served.shards], reads)
        return snapshot, {str(part.path): _readable(client, part) for part in served.parts}

    def parts(self, name: str) -> Iterator[ReadablePart]:
        """Yield the parts that a stream has now."""
        client, _ = StreamClient.opened(self._client, name, None, self._one_root())
        for part in client.result("parts"):
            yield _readable(client, part)

    def has(self, readable: ReadablePart) -> bool:
        """Tell whether the file of a part is there."""
        try:
            readable.opener().read(0, 1)
        except FileNotFoundError:
            return False
        except CorruptionError:
            # It is there, and shorter than it was.
            return True
        return True

    def difference(self, readable: ReadablePart) -> str:
        """Read the file of a part; say what is wrong with it, nothing if all is well."""
        file, entry = readable.opener(), readable.part.entry
        digest = xxh3.xxh3_128()
        try:
            for begin in range(0, entry.size, _READ_BYTES):
                digest.update(file.read(begin, min(_READ_BYTES, entry.size - begin)))
        except FileNotFoundError:
            return "is missing"
        except CorruptionError as error:
            return f"cannot be read: {error.message}"
        return "" if digest.digest() == entry.digest else "does not match its digest"

    def interrupt(self) -> None:
        """Let calls of a server that are under way fail; from any thread, again and again."""
        self._client.interrupt()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _one_root(self) -> str:
        """Return the root that the servers are over; who answers later has to be over it, too.

        Raises:
            InvalidRequestError: They are over roots of their own, of which one alone would answer.
            UnavailableError: No server answers.
        """
        if self._root is None:
            self._root = refuse_several_roots(self._client, "SQL reads one")
        return self._root


def _group(
    group: ServedGroup, by_place: Mapping[tuple[int, int], Part], shards: Mapping[int, ShardParts]
) -> PartGroup:
    parts = [by_place[place] for place in group.parts]
    # Rows may have expired since the server grouped them.
    hides = group.has_hidden or any(may_hide_rows(one.entry, shards[one.shard]) for one in parts)
    return PartGroup(group.schema, hides, parts)


def _readable(client: StreamClient, part: Part) -> ReadablePart:
    served = _ServedPart(client, part.shard, part.entry.number)
    return ReadablePart(part, lambda: served)


@dataclass(frozen=True, slots=True)
class _ServedPart:
    """The bytes of a part at a server."""

    client: StreamClient
    shard: int
    number: int

    def read(self, offset: int, size: int) -> bytes:
        values = {"start": offset, "end": offset + size}
        table, result = self.client.table(
            "part_bytes", {"shard": self.shard, "number": self.number, **values}
        )
        if result is not None:
            raise FileNotFoundError
        data = b"".join(piece.as_buffer() for piece in table.column(0))
        if len(data) != size:
            message = f"{len(data)} bytes of a part came, expected {size}"
            raise CorruptionError(message)
        return data

    def close(self) -> None:
        """Nothing is open for a part alone."""
