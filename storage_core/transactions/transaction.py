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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from storage_core.catalog.changes import locked
from storage_core.errors import (
    ClosedError,
    InvalidRequestError,
    UnavailableError,
)
from storage_core.format.record import rows_from_arrow
from storage_core.ground.clock import Clock
from storage_core.ground.durable_file import file_errors, sync_directory
from storage_core.ground.forking import Home
from storage_core.transactions.finish import finish
from storage_core.transactions.manifest import (
    MANIFEST_FILE,
    Manifest,
    begin_attempt,
    check_transaction_name,
    given_up_note,
    publish_manifest,
    read_manifest,
    remove_attempt,
    transaction_directory,
)
from storage_core.transactions.staged_rows import StagedShardWriter
from storage_core.write.record_builder import RecordBuilder
from storage_core.write.shard import Shard


class Transaction:
    """Rows gathered under an id; leaving the block without an exception makes them durable."""

    def __init__(
        self, staging: Path, name: str, rows_total: int, shards: Mapping[int, Shard], clock: Clock
    ) -> None:
        """Find out whether this id was seen before.

        Raises:
            InvalidRequestError: The id was seen with another number of rows.
        """
        check_transaction_name(name)
        self._staging = staging
        self._name = name
        self._rows_total = rows_total
        self._shards = shards
        self._clock = clock
        self._writers: dict[int, StagedShardWriter] = {}
        self._builders: dict[int, RecordBuilder] = {}
        self._attempt: Path | None = None
        self._is_over = False
        self._home = Home()
        with file_errors(staging, "looking for a transaction"):
            self._manifest = read_manifest(transaction_directory(staging, name))
            is_to_land = self._manifest is None and self._is_given_up()
        known = self._manifest.rows_total if self._manifest else self._rows_done()
        if known is not None and known != rows_total:
            message = f"transaction {name!r} was made with {known} rows, not {rows_total}"
            raise InvalidRequestError(message)
        self.is_replay = known is not None and not is_to_land

    def append(self, primary: int, secondary: int, payload: bytes | None, version: int = 0) -> None:
        """Stage one record."""
        self._refuse_if_over()
        if self.is_replay:
            return
        shard = self._route(secondary)
        builder = self._builders.get(shard)
        if builder is None:
            builder = self._builders[shard] = RecordBuilder(self._shards[shard].options)
        if builder.add(primary, secondary, payload, version):
            with self._staging_errors("staging records"):
                self._flush(shard, builder)

    def append_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Stage a batch."""
        self._refuse_if_over()
        if self.is_replay:
            return
        with self._staging_errors("staging a batch"):
            self._stage(batch)

    def _stage(self, batch: pa.RecordBatch | pa.Table) -> None:
        options = next(iter(self._shards.values())).options
        rows = rows_from_arrow(batch, options.payload_bytes_max)
        mask = self._mask()
        numbers = rows.secondary & mask
        concerned = np.unique(numbers).tolist()
        for shard in concerned:
            self._route(shard)
        for shard in concerned:
            builder = self._builders.get(shard)
            if builder is not None:
                self._flush(shard, builder)
            if shard in self._writers:
                self._writers[shard].refuse_other_columns(rows)
        for shard in concerned:
            positions = np.flatnonzero(numbers == shard)
            self._writer(shard).write(rows.take(positions))

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
            with self._staging_errors("staging a transaction"):
                self._manifest = self._publish()
        if self._manifest is not None:
            with file_errors(self._staging, "finishing a transaction"):
                finish(self._manifest, self._shards, self._clock)

    def _publish(self) -> Manifest | None:
        try:
            for shard, builder in self._builders.items():
                self._flush(shard, builder)
            self._check_total()
            self._check_landed()
            if not self._writers:
                self._writer(min(self._shards))
            parts = {shard: (writer.finish(),) for shard, writer in self._writers.items()}
            assert self._attempt is not None
            # IMPORTANT: what is done or abandoned is cleared away under this lock too.
            with locked(self._staging.parent, self._clock):
                sync_directory(self._attempt)
                manifest = publish_manifest(self._staging, self._name, parts)
        except BaseException:
            self._abandon()
            raise
        if manifest is None:
            self._take_as_done()
        return manifest

    @contextmanager
    def _staging_errors(self, doing: str) -> Iterator[None]:
        with file_errors(self._staging, doing):
            try:
                yield
            except FileNotFoundError:
                self._take_as_done()

    def _take_as_done(self) -> None:
        """Find that another attempt under this id was first, and is done and cleared away.

        Raises:
            UnavailableError: It is not; the staged rows were swept for their age, or removed.
        """
        shards = self._shards.values()
        is_unfinished = any(self._name == one.transactions.unfinished() for one in shards)
        if is_unfinished or self._is_given_up() or self._rows_done() is None:
            message = (
                f"the staged rows of transaction {self._name!r} are gone before they were "
                "published; run it again"
            )
            raise UnavailableError(message, path=self._staging)
        self.is_replay = True
        self._abandon()

    def _refuse_if_over(self) -> None:
        self._home.refuse_elsewhere()
        if self._is_over:
            message = f"transaction {self._name!r} was left; its rows are decided"
            raise ClosedError(message)

    def _check_total(self) -> None:
        staged = sum(writer.rows for writer in self._writers.values())
        if staged != self._rows_total:
            message = f"transaction {self._name!r} staged {staged} rows of {self._rows_total}"
            raise InvalidRequestError(message)

    def _check_landed(self) -> None:
        """Refuse other rows than the ones that have landed of what was given up."""
        if not self._is_given_up():
            return
        for number, shard in self._shards.items():
            progress = shard.transactions.progress(self._name)
            staged = self._writers[number].rows if number in self._writers else 0
            if progress is not None and progress.is_done and progress.rows_total != staged:
                message = (
                    f"transaction {self._name!r} was given up when {progress.rows_total} rows had "
                    f"landed, and comes again with {staged} there; give other rows another id"
                )
                raise InvalidRequestError(message, shard=number)

    def _is_given_up(self) -> bool:
        return given_up_note(transaction_directory(self._staging, self._name)).exists()

    def _abandon(self) -> None:
        for writer in self._writers.values():
            with suppress(OSError):
                writer.abandon()
        # IMPORTANT: an error behind the manifest's publication leaves its files to an opener.
        if self._attempt is not None and not (self._attempt.parent / MANIFEST_FILE).exists():
            remove_attempt(self._attempt)

    def _flush(self, shard: int, builder: RecordBuilder) -> None:
        if len(builder):
            self._writer(shard).write(builder.rows())
            builder.clear()

    def _writer(self, shard: int) -> StagedShardWriter:
        if shard not in self._writers:
            if self._attempt is None:
                self._attempt = begin_attempt(self._staging, self._name)
            path = self._attempt / f"shard-{shard:04d}.arrow"
            self._writers[shard] = StagedShardWriter(path)
        return self._writers[shard]

    def _mask(self) -> int:
        mask = next(iter(self._shards.values())).context.meta.route_mask
        assert mask is not None, "a stream with an origin has no transactions"
        return mask

    def _route(self, secondary: int) -> int:
        try:
            shard = index(secondary) & self._mask()
        except TypeError as error:
            message = f"secondary must be an integer, not {type(secondary).__name__}"
            raise InvalidRequestError(message) from error
        if shard not in self._shards:
            message = f"shard {shard} is not open here"
            raise InvalidRequestError(message)
        return shard

    def _rows_done(self) -> int | None:
        """Return the rows of a transaction whose staging is gone because all is done."""
        found = [shard.transactions.progress(self._name) for shard in self._shards.values()]
        known = (progress.rows_of_all_shards for progress in found if progress is not None)
        return next(known, None)
