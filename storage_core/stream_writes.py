"""What callers write to shards beside single records: batches, gaps, outcomes of dead letters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX
from storage_core.format.record import rows_from_arrow
from storage_core.format.schema_entry import SchemaEntry
from storage_core.ids.dictionaries.routing import refuse_strange_keys, rows_by_shard
from storage_core.ids.dictionaries.schemas import checked_schemas
from storage_core.open_shards import OpenShards
from storage_core.write.batch_over_shards import append_over_shards
from storage_core.write.duplicates import checked_addresses
from storage_core.write.entry import (
    AppendReport,
    DeadLetterOutcome,
    Entry,
    check_outcome,
    checked_attachment_keys,
    checked_attachments,
    checked_dead_letter_addresses,
    checked_dead_letters,
    checked_source,
    without_states,
)
from storage_core.write.shard import Shard


class StreamWrites:
    """Checks what is to be written, routes it, and has its shards write it. Any thread."""

    def __init__(self, shards: OpenShards[Shard]) -> None:
        """Write to these shards."""
        self._shards = shards
        self._has_keys = shards.meta.has_keys
        # A stream whose rows are not routed has one place for every secondary, and no shard there.
        self._mask = shards.meta.shard_mask or 0

    def append_batch(  # noqa: PLR0913 - what a batch may bring
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        shard: int | None = None,
        addresses: object = None,
        source: dict[str, Any] | None = None,
        attachments: Iterable[tuple[str, bytes, bytes]] = (),
        dead_letters: Mapping[int, bytes] | None = None,
        schemas: Sequence[SchemaEntry] = (),
    ) -> AppendReport:
        """Write a batch, all of its rows or none; durable once `commit` returns.

        After a crash before that, each shard has its part whole or not at all.

        Args:
            batch: Columns primary, secondary, payload, and optionally version, key, headers,
                timestamp, timestamp_type, schema (int32, a place in `schemas`). In a stream with a
                key dictionary `key` is needed, null for no key, and there is no secondary. With
                addresses `state` (uint8) says what the rows of a copy were found to be at first;
                without it they are judged anew.
            shard: The shard all rows go to; None routes each by its secondary, or by its key's
                hash, which a stream with an origin refuses. Keys that route elsewhere are refused.
            addresses: The rows' own addresses, strictly increasing; rows already stored are
                skipped and counted. Needs `shard` unless there is one shard only. Rows of an
                origin must bring theirs.
            source: Where the rows' source stands afterwards, kept with them; its `next` moves
                the tail past addresses that carry no rows.
            attachments: (family, key, value) to be written with the rows.
            dead_letters: What cannot be a row, by address, in the caller's own encoding; kept
                as it is, and moves the tail like a row. Addresses below the tail are skipped
                and counted.
            schemas: By which schemas the payloads were written, as the rows' column `schema` counts
                through them; null is none. Each shard keeps those that are new to it.

        Raises:
            InvalidRequestError: Something does not fit; nothing changed.
            LostRangeError: Addresses lie in a lost range; nothing changed.
            UnavailableError: A shard was held by another call for too long; nothing changed.
            ShardPoisonedError: A write failed; where the batch went to several shards, the
                message says which of them have their rows.

        Example:
            >>> times, ids = [1_700_000_002_000, 1_700_000_001_000], [7, 7]
            >>> rows = {"primary": times, "secondary": ids, "payload": [b"end", b"middle"]}
            >>> report = stream.append_batch(pa.table(rows))
            >>> report.appended, report.late
            (2, 1)
        """
        self._shards.refuse_if_closed()
        largest = self._shards.options.payload_bytes_max
        checked = checked_schemas(schemas)
        is_placed = shard is not None and addresses is not None
        batch, states = without_states(batch, is_placed=is_placed)
        rows = rows_from_arrow(batch, largest, has_keys=self._has_keys, schemas=checked)
        extra = checked_attachments(attachments)
        if shard is None:
            self.refuse_unrouted()
        if shard is None and self._mask == 0:
            shard = 0
        if shard is not None:
            placed = None if addresses is None else checked_addresses(addresses, len(rows))
            if placed is None and len(rows) and self._shards.meta.origin is not None:
                message = "the rows come from an origin: give the addresses they have there"
                raise InvalidRequestError(message, stream=self._shards.meta.name)
            if self._has_keys:
                refuse_strange_keys(rows, self._mask, shard)
            dead = checked_dead_letters(dead_letters, rows, placed)
            entry = Entry(rows, placed, checked_source(source), extra, dead, states=states)
            return self._shards.shard(shard).append(entry)
        if addresses is not None or source is not None or extra or dead_letters:
            message = "addresses, source, attachments and dead letters belong to one shard: name it"
            raise InvalidRequestError(message)
        routed = rows_by_shard(rows, self._mask, has_keys=self._has_keys)
        parts = [(self._shards.shard(number), some) for number, some in routed]
        if len(parts) == 1:
            return parts[0][0].append(Entry(parts[0][1]))
        return append_over_shards(parts)

    def judge(
        self,
        batch: pa.RecordBatch | pa.Table,
        shard: int,
        *,
        schemas: Sequence[SchemaEntry] = (),
    ) -> pa.UInt8Array:
        """Return the states that rows would get if they were appended to a shard now.

        Nothing is written. For rows that are stored elsewhere and are late as they would be here.

        Args:
            batch: As `append_batch` takes it, without a column of states.
            shard: The shard by whose ids they are judged.
            schemas: As `append_batch` takes them.

        Raises:
            InvalidRequestError: Something does not fit.
        """
        largest, checked = self._shards.options.payload_bytes_max, checked_schemas(schemas)
        rows = rows_from_arrow(batch, largest, has_keys=self._has_keys, schemas=checked)
        states: Any = pa.array(self._shards.shard(shard).judge(rows))
        judged: pa.UInt8Array = states
        return judged

    def skip(self, shard: int, end: int, *, source: dict[str, Any] | None = None) -> None:
        """Skip what the source no longer has, from the tail to `end`; durable on return.

        Reads find nothing there, and `gaps` returns it. Where the tail is at `end` already only
        the source is written.

        Args:
            shard: The shard.
            end: The address to go on from.
            source: Where the rows' source stands afterwards.

        Raises:
            InvalidRequestError: The tail lies above `end`.
        """
        self._shards.refuse_if_closed()
        if type(end) is not int or not 0 <= end <= ADDRESS_MAX:
            message = f"end {end!r} is not an address from 0 to {ADDRESS_MAX}"
            raise InvalidRequestError(message)
        self._shards.shard(shard).skip(end, checked_source(source))

    def clear_dead_letters(
        self, shard: int, addresses: Iterable[int], *, outcome: DeadLetterOutcome = "forwarded"
    ) -> int:
        """Delete dead letters that are done with; durable on return.

        Args:
            shard: The shard.
            addresses: Theirs, below committed; where none lies (any more), nothing is done.
            outcome: What became of them, by which they are counted: `forwarded`, `retried` (they
                are rows now), `discarded`, or `dropped` for want of room.

        Returns:
            How many were there.

        Raises:
            InvalidRequestError: One lies at or above committed, or is no address.
        """
        check_outcome(outcome)
        opened = self._shards.shard(shard)
        checked = checked_dead_letter_addresses(addresses, opened.committed())
        return opened.clear_dead_letters(checked, outcome)

    def attachments(self, shard: int, keys: Iterable[bytes]) -> list[bytes | None]:
        """Return the attachments under keys that `append_batch` was given; None where none is.

        Those of batches that are not committed yet are among them.

        Args:
            shard: The shard with whose rows they were written.
            keys: Their keys.

        Example:
            >>> rows = {"primary": [1_700_000_003_000], "secondary": [7], "payload": [b"x"]}
            >>> attachments = [("default", b"last", b"9")]
            >>> report = stream.append_batch(pa.table(rows), shard=3, attachments=attachments)
            >>> stream.attachments(3, [b"last", b"first"])
            [b'9', None]
        """
        return self._shards.shard(shard).attachments(checked_attachment_keys(keys))

    def clear_attachments(self, shard: int, start: bytes, end: bytes) -> None:
        """Delete a shard's attachments from one key to before another; durable once committed.

        However many there are, it costs as much as one row.

        Args:
            shard: The shard.
            start: The least key.
            end: The least key that stays, not below `start`.
        """
        first, last = checked_attachment_keys([start, end])
        if first > last:
            message = f"attachments from {start!r} to before {end!r} are none: the end is lower"
            raise InvalidRequestError(message)
        self._shards.shard(shard).clear_attachments(first, last)

    def refuse_unrouted(self) -> None:
        """Refuse rows without a shard where secondaries do not name one."""
        if self._shards.meta.origin is not None:
            self._shards.refuse_if_closed()
            message = "the shards are partitions of an origin: append batches that name theirs"
            raise InvalidRequestError(message, stream=self._shards.meta.name)
