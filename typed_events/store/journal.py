"""The journal: what must be stored at several places or at none, written down before it is.

A row of the stream `_batches` is one group; its primary counts them. The payload is, for each place
of the group, the size of an Arrow IPC stream, u32, big-endian, and that stream: one batch as the
log takes it. The metadata of its schema say where it goes (`place`, JSON).

    {"stream", "shard", "lineage", "first": address of the first row,
     "schemas": [[registry id, fingerprint, text], …], "attachments": [[key, value], …]}

Bytes are in hex. A group is applied before the next is written, so only the last can be unfinished.
What of it is missing is told by the tails: a place has all of its rows of a group or none.
"""

import json
import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core import CorruptionError, SchemaEntry, Stream
from typed_events.store.attached import FAMILY
from typed_events.store.owned_streams import JOURNAL_STREAM, OwnedStream, OwnedStreams

_SIZE: Final = struct.Struct(">I")
_PLACE: Final = b"place"
_log = logging.getLogger(__name__)

Attachments = list[tuple[str, bytes, bytes]]


@dataclass(frozen=True, slots=True)
class PlaceAppend:
    """What is appended at a place.

    Attributes:
        stream: The stream's name.
        shard: The shard.
        lineage: Of the shard: it tells a stream that was made anew.
        first: The address of the first row.
        batch: The rows.
        schemas: Their schemas.
        attachments: What is written beside them.
    """

    stream: str
    shard: int
    lineage: str
    first: int
    batch: pa.RecordBatch
    schemas: list[SchemaEntry]
    attachments: Attachments

    def append_to(self, owned: OwnedStream, *, is_late: bool = False) -> None:
        """Append it; not durable yet.

        Args:
            owned: The stream.
            is_late: Whether rows may be past their time by now; they take their addresses then.
        """
        addresses = range(self.first, self.first + len(self.batch)) if is_late else None
        report = owned.stream.append_batch(
            self.batch,
            shard=self.shard,
            addresses=addresses,
            attachments=self.attachments,
            schemas=self.schemas,
        )
        if report.appended != len(self.batch) and not is_late:
            message = f"{len(self.batch) - report.appended} events are older than they are kept"
            raise CorruptionError(message, stream=self.stream, shard=self.shard)


def append_to_journal(journal: Stream, appends: list[PlaceAppend]) -> None:
    """Write a group down; not durable yet."""
    number = journal.committed()[0]
    row: dict[str, Any] = {
        "primary": pa.array([number], pa.int64()),
        "secondary": pa.array([0], pa.int32()),
        "payload": pa.array([encode_group(appends)], pa.binary()),
    }
    journal.append_batch(pa.RecordBatch.from_pydict(row))


def finish_last(streams: OwnedStreams) -> None:
    """Store what is missing of the last group that was written down; durable on return."""
    journal = streams.journal
    end = journal.commit()[0]
    if not end:
        return
    for batch in journal.tail(0, end - 1, end):
        payloads: list[Any] = batch.column("payload").to_pylist()
        for append in (append for payload in payloads for append in decode_group(payload)):
            _finish(streams, append)


def _finish(streams: OwnedStreams, append: PlaceAppend) -> None:
    owned = streams.by_type.get(append.stream)
    if owned is None or owned.stream.lineage(append.shard) != append.lineage:
        # Dropped since, with all that was in it.
        return
    tail = owned.tails[append.shard]
    if tail > append.first:
        return
    if tail < append.first:
        message = (
            f"the last batch of {JOURNAL_STREAM} goes on at {append.first} of {append.stream}, "
            f"which ends at {tail}: an older copy of {append.stream} was put back. Nothing is "
            f"stored until {JOURNAL_STREAM} of the time of that copy is put back, too, or is "
            f"dropped by `shardlog drop ROOT {JOURNAL_STREAM} --execute`; what types lack of that "
            "batch they lack for good then"
        )
        raise CorruptionError(message, stream=append.stream, shard=append.shard)
    append.append_to(owned, is_late=True)
    owned.refresh()
    _log.info("stored %d events of an unfinished batch in %s", len(append.batch), append.stream)


def encode_group(appends: list[PlaceAppend]) -> bytes:
    """Return the payload of a group."""
    pieces = []
    for append in appends:
        place = {
            "stream": append.stream,
            "shard": append.shard,
            "lineage": append.lineage,
            "first": append.first,
            "schemas": [[s.registry_id, s.fingerprint.hex(), s.text] for s in append.schemas],
            "attachments": [[key.hex(), value.hex()] for _, key, value in append.attachments],
        }
        batch = append.batch.replace_schema_metadata({_PLACE: json.dumps(place).encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue().to_pybytes()
        pieces += [_SIZE.pack(len(data)), data]
    return b"".join(pieces)


def decode_group(payload: bytes) -> Iterator[PlaceAppend]:
    """Yield what `encode_group` was given."""
    start = 0
    while start < len(payload):
        (size,) = _SIZE.unpack_from(payload, start)
        start += _SIZE.size
        with pa.ipc.open_stream(payload[start : start + size]) as reader:
            batch = reader.read_next_batch()
        start += size
        place: Any = json.loads((batch.schema.metadata or {})[_PLACE])
        yield PlaceAppend(
            place["stream"],
            place["shard"],
            place["lineage"],
            place["first"],
            batch.replace_schema_metadata(None),
            [SchemaEntry(id_, bytes.fromhex(mark), text) for id_, mark, text in place["schemas"]],
            [(FAMILY, bytes.fromhex(k), bytes.fromhex(v)) for k, v in place["attachments"]],
        )
