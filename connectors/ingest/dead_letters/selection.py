"""Which dead letters a command is about: by partition, offsets, time, reason and schema."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from connectors.dlq.record import DeadLetter, decode_dead_letter, reason_word
from connectors.ingest.values.framing import ID, read_frames
from connectors.kafka import Headers
from storage_core import HEADERS_TYPE

_BATCH_MAX: Final = 500
_BYTES_MAX: Final = 8 * 2**20


class DeadLetterReader(Protocol):
    """Who has dead letters: an open stream, or a reader."""

    def dead_letters(
        self, shard: int, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by offset."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter in its shard.

    Attributes:
        offset: Its address, the offset of its record.
        raw: Its bytes.
        dead letter: What they say; None where no worker wrote them.
    """

    offset: int
    raw: bytes
    dead_letter: DeadLetter | None

    @property
    def word(self) -> str:
        """The stable word for its reason."""
        return reason_word(self.raw)

    @property
    def schema_id(self) -> int | None:
        """The id of the schema that its value names, None if it names none by id."""
        if self.dead_letter is None or self.dead_letter.value is None:
            return None
        name = next(iter(read_frames(*_columns(self.dead_letter)).names), b"")
        return int.from_bytes(name[1:], "big") if name[:1] == ID else None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters of a stream; without anything, all.

    Attributes:
        partitions: Only of these.
        start: The first offset.
        end: The last offset; None for no end.
        since_ms: The least timestamp of the record.
        until_ms: The largest.
        reasons: Only those with one of these words for their reason.
        schema_ids: Only those whose value names one of these schemas.
    """

    partitions: frozenset[int] = frozenset()
    start: int = 0
    end: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    reasons: frozenset[str] = frozenset()
    schema_ids: frozenset[int] = frozenset()

    @property
    def looks_inside(self) -> bool:
        """Whether more than counters has to be looked at."""
        return self != Selection(self.partitions)

    def dead_letters(self, reader: DeadLetterReader, shard: int) -> Iterator[StoredDeadLetter]:
        """Yield the chosen dead letters of a shard by offset."""
        if self.partitions and shard not in self.partitions:
            return
        end = None if self.end is None else self.end + 1
        for offset, raw in reader.dead_letters(shard, self.start, end):
            if self.reasons and reason_word(raw) not in self.reasons:
                continue
            entry = StoredDeadLetter(offset, raw, decoded(raw))
            if self._takes(entry):
                yield entry

    def batches(self, reader: DeadLetterReader, shard: int) -> Iterator[list[StoredDeadLetter]]:
        """Yield the chosen dead letters of a shard, some at a time."""
        batch: list[StoredDeadLetter] = []
        size = 0
        for entry in self.dead_letters(reader, shard):
            batch.append(entry)
            size += len(entry.raw)
            if len(batch) >= _BATCH_MAX or size >= _BYTES_MAX:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _takes(self, entry: StoredDeadLetter) -> bool:
        if (self.since_ms, self.until_ms) != (None, None):
            if entry.dead_letter is None:
                return False
            time_ms = entry.dead_letter.timestamp
            if self.since_ms is not None and time_ms < self.since_ms:
                return False
            if self.until_ms is not None and time_ms > self.until_ms:
                return False
        return not self.schema_ids or entry.schema_id in self.schema_ids


def decoded(raw: bytes) -> DeadLetter | None:
    """Return what a dead letter says, None if no worker wrote it."""
    try:
        return decode_dead_letter(raw)
    except ValueError:
        return None


def headers_column(headers: list[Headers | None]) -> Any:  # noqa: ANN401 - an array of HEADERS_TYPE
    """Return headers as a column; None where no record has any."""
    return pa.array(headers, HEADERS_TYPE) if any(headers) else None


def _columns(dead_letter: DeadLetter) -> tuple[Any, Any]:
    return pa.array([dead_letter.value], pa.binary()), headers_column([dead_letter.headers])


def waiting_in(shards: Mapping[int, int], selection: Selection) -> int:
    """Return how many dead letters the shards that are chosen keep.

    Args:
        shards: How many each keeps.
        selection: What is chosen.
    """
    chosen = selection.partitions or shards.keys()
    return sum(count for number, count in shards.items() if number in chosen)
