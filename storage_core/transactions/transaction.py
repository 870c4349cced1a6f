"""Transactions: many rows that become visible at once in each shard, and only once.

Leaving the block, in order:

1. Staged files are made durable.
2. The manifest is published by link(2); the first one under this id wins, and from here on
   the transaction is finished by whoever opens its shards.
3. Each shard appends its rows, two shards at a time, every batch with (transaction, rows done)
   beside it; the shard's marker moves once, behind the last batch.
4. Staging is cleared when every shard has recorded the transaction done.

An exception before step 2 leaves nothing. A replay under the same id stages nothing: it is a
no-op, or goes on from the manifest where the first one stopped.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from storage_core.errors import (
    ClosedError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.format.schema_entry import SchemaEntry
from storage_core.ids.dictionaries.routing import shards_of_rows
from storage_core.ids.dictionaries.schemas import checked_schemas
from storage_core.platform.durable_file import file_errors
from storage_core.platform.fork_guard import Home
from storage_core.transactions.decision import Decision, Shards, decision_of, publish, rows_gone
from storage_core.transactions.finish import finish
from storage_core.transactions.manifest import (
    Parts,
    Staging,
    begin_attempt,
    remove_attempts,
)
from storage_core.transactions.series import NAME_BYTES_MAX, NAME_PREFIX, can_be_kept
from storage_core.transactions.staged_rows import StagedRowsWriter, rows_of
from storage_core.write.record_builder import RecordBuilder


class Transaction:
    """Rows gathered under an id; leaving the block without an exception makes them durable."""

    def __init__(self, staging: Staging, name: str, rows_total: int, shards: Shards) -> None:
        """Find out whether this id was seen before.

        Raises:
            InvalidRequestError: The id was seen with another number of rows.
        """
        if not can_be_kept(name) or name.startswith(NAME_PREFIX):
            message = (
                f"a transaction's id is text of 1 to {NAME_BYTES_MAX} printable bytes "
                f"that does not begin with {NAME_PREFIX!r}"
            )
            raise InvalidRequestError(message)
        self._staging = staging
        self._name = name
        self._rows_total = rows_total
        self._shards = shards
        shard = next(iter(shards.values()))
        mask, self._payload_bytes_max = (
            shard.context.meta.shard_mask,
            shard.options.payload_bytes_max,
        )
        assert mask is not None, "a stream with an origin has no transactions"
        self._mask = mask
        self._has_keys = shard.context.meta.has_keys
        self._builder = RecordBuilder(shard.options)
        self._writer = StagedRowsWriter(
            self._begin, mask, keeps_order=True, has_keys=self._has_keys
        )
        self._is_over = False
        self._is_in_doubt = False
        self._home = Home()
        with file_errors(staging.directory, "looking for a transaction"):
            decision = self._decision()
        self._manifest = decision.manifest
        self.is_replay = decision.is_made

    def append(self, primary: int, secondary: int, payload: bytes | None, version: int = 0) -> None:
        """Stage one record."""
        self._refuse_if_over()
        if self._has_keys:
            message = "this stream has a key dictionary: append batches with a column of keys"
            raise InvalidRequestError(message)
        if self.is_replay:
            return
        try:
            self._refuse_unless_open(index(secondary) & self._mask)
        except TypeError as error:
            message = f"secondary must be an integer, not {type(secondary).__name__}"
            raise InvalidRequestError(message) from error
        if self._builder.add(primary, secondary, payload, version):
            self._stage_records()

    def append_batch(
        self, batch: pa.RecordBatch | pa.Table, *, schemas: Sequence[SchemaEntry] = ()
    ) -> None:
        """Stage a batch, its rows and schemas as those of `Stream.append_batch`."""
        self._refuse_if_over()
        if self.is_replay:
            return
        checked = checked_schemas(schemas)
        rows = rows_from_arrow(
            batch, self._payload_bytes_max, has_keys=self._has_keys, schemas=checked
        )
        shards = shards_of_rows(rows, self._mask, has_keys=self._has_keys)
        for shard in np.unique(shards).tolist():
            self._refuse_unless_open(shard)
        self._stage_records()
        # IMPORTANT: a caller may use the batch's memory again.
        self._stage(rows, copies=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._home.refuse_elsewhere()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Make the rows durable, or leave nothing."""
        if self._home.is_elsewhere and kind is not None:
            # A fork that ends by an exception leaves the transaction to its parent.
            return
        self._home.refuse_elsewhere()
        self._is_over = True
        if kind is not None:
            self._abandon()
            return
        if not self.is_replay:
            try:
                self._decide()
            except BaseException:
                self._abandon()
                raise
        if self._manifest is not None:
            with file_errors(self._staging.directory, "finishing a transaction"):
                finish(self._staging, self._manifest, self._shards)

    def _decide(self) -> None:
        """Publish what was staged, or find what another attempt under this id has."""
        with self._unless_decided():
            self._stage_records()
            parts = self._writer.finish()
            self._check(parts)
            # One without rows is remembered by a shard too.
            parts = parts or {min(self._shards): ()}
            with (
                file_errors(self._staging.directory, "staging a transaction"),
                self._staging.locked(),
            ):
                decision = publish(self._staging, self._name, parts, shards=self._shards)
            self._refuse_other_total(decision.rows_total)
            self.is_replay = decision.is_done
            self._manifest = decision.manifest

    def _stage_records(self) -> None:
        if self._is_in_doubt:
            message = (
                f"a call of transaction {self._name!r} was interrupted, and records may be staged "
                "twice; nothing is kept, make it again"
            )
            raise UnavailableError(message)
        if not len(self._builder):
            return
        rows = self._builder.rows()
        self._is_in_doubt = True
        try:
            self._stage(rows)
            self._builder.clear()
        except (ShardlogError, OSError):
            # They were not taken, so they come again with the next call.
            self._is_in_doubt = False
            raise
        self._is_in_doubt = False

    def _stage(self, rows: Rows, *, copies: bool = False) -> None:
        with self._unless_decided():
            self._writer.buffer(rows, copies=copies)

    def _begin(self) -> Path:
        with file_errors(self._staging.directory, "staging rows"), self._staging.locked():
            return begin_attempt(self._staging, self._name)

    @contextmanager
    def _unless_decided(self) -> Iterator[None]:
        """Be a replay where another attempt under this id was first, and has cleared all away.

        Raises:
            UnavailableError: None was; the staged rows were deleted, for their age or by somebody.
        """
        try:
            yield
        except UnavailableError as error:
            attempt = self._writer.attempt
            if attempt is None or attempt.exists():
                raise
            if not self._decision().is_done:
                raise rows_gone(self._staging, self._name, attempt) from error
            self.is_replay = True
            self._abandon()

    def _decision(self) -> Decision:
        decision = decision_of(self._staging, self._name, self._shards)
        self._refuse_other_total(decision.rows_total)
        return decision

    def _refuse_other_total(self, decided: int | None) -> None:
        if decided not in (None, self._rows_total):
            message = (
                f"transaction {self._name!r} was made with {decided} rows, not {self._rows_total}"
            )
            raise InvalidRequestError(message)

    def _check(self, parts: Parts) -> None:
        """Refuse another number of rows than was promised, or than has landed before."""
        staged = rows_of(parts)
        if staged != self._rows_total:
            message = f"transaction {self._name!r} staged {staged} rows of {self._rows_total}"
            raise InvalidRequestError(message)
        if not self._decision().is_given_up:
            return
        for number, shard in self._shards.items():
            progress = shard.transactions.progress(self._name)
            staged = sum(part.rows for part in parts.get(number, ()))
            if progress is not None and progress.is_done and progress.rows_total != staged:
                message = (
                    f"transaction {self._name!r} was given up after {progress.rows_total} rows "
                    f"had landed, and is repeated with {staged}; give other rows another id"
                )
                raise InvalidRequestError(message, shard=number)

    def _abandon(self) -> None:
        """Leave nothing; what an error behind its publication leaves is for an opener."""
        self._writer.close()
        if self._writer.attempt is not None:
            with suppress(ShardlogError, OSError), self._staging.locked():
                remove_attempts(self._staging.of(self._name), [self._writer.attempt.name])

    def _refuse_if_over(self) -> None:
        self._home.refuse_elsewhere()
        if self._is_over:
            message = f"transaction {self._name!r} has ended"
            raise ClosedError(message)

    def _refuse_unless_open(self, shard: int) -> None:
        if shard not in self._shards:
            message = f"shard {shard} is not open here"
            raise InvalidRequestError(message)
