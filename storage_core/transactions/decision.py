"""Whether a transaction is decided, and whether it is done: one answer for all who ask.

Decided, its rows can be no others any more; done, they are durable in every shard. Four witnesses
are heard, in this order, and the first that speaks is believed:

1. Its manifest. While that is there, the transaction is decided and somebody is still to finish
   it, whatever the others say. A `done-0000` beside it is a note of one shard to those who finish,
   and means nothing without it.
2. The mark of its series, if it has a number: each number up to the mark is done. Nothing else is
   asked about a number; shards forget it some time after the mark speaks.
3. The note that it was given up: then it is to come again, though shards may know it.
4. The ledgers of the shards that are open here. A manifest goes only when all shards have their
   rows, so one that has them is enough; unless another has only a part, and staging was removed.

Who holds none of its shards open hears no ledger, and takes a transaction without a number that
is done for a new one. Publishing it changes nothing: its shards are asked when it is finished.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from storage_core.errors import CorruptionError, ForeignDataError, UnavailableError
from storage_core.format.contents import Contents
from storage_core.format.keys import KIND_NUMBERED
from storage_core.transactions.manifest import (
    AnyId,
    Manifest,
    Parts,
    Staging,
    given_up_note,
    name_of,
    read_manifest,
    remove_transaction,
    staged_transactions,
    write_manifest,
)
from storage_core.transactions.series import (
    TransactionId,
    id_of_name,
    note_skipped,
    read_mark,
    write_mark,
)
from storage_core.write.shard import Shard

Shards = Mapping[int, Shard]
NO_SHARDS: Final[Shards] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Decision:
    """What is known of a transaction.

    Attributes:
        manifest: What is still to be finished.
        is_done: Whether nothing is, and never will be.
        is_given_up: Whether it may have landed in some shards, and is to come again.
        rows_total: How many rows it was made with, where that is known.
        contents: What it held, where that was told.
    """

    manifest: Manifest | None = None
    is_done: bool = False
    is_given_up: bool = False
    rows_total: int | None = None
    contents: Contents | None = None

    @property
    def is_made(self) -> bool:
        """Tell whether its rows can be no others any more."""
        return self.manifest is not None or self.is_done


def heard(staging: Staging, transaction: AnyId, shards: Shards = NO_SHARDS) -> Decision:
    """Return what the witnesses tell of a transaction itself, as the module's text numbers them.

    Raises:
        CorruptionError: Its manifest, or the mark of its series, is damaged.
    """
    directory = staging.of(transaction)
    manifest = read_manifest(directory)
    if manifest is not None:  # 1
        return Decision(manifest, rows_total=manifest.rows_total, contents=manifest.contents)
    if isinstance(transaction, TransactionId) and transaction.number is not None:  # 2
        mark = read_mark(staging.stream, transaction.series)
        if mark is None or mark.number < transaction.number:
            return Decision()
        return Decision(is_done=True, contents=mark.contents.get(transaction.number))
    is_given_up = given_up_note(directory).exists()  # 3
    reported = (shard.transactions.progress(name_of(transaction)) for shard in shards.values())
    progresses = [progress for progress in reported if progress is not None]
    is_done = bool(progresses) and all(one.is_done for one in progresses) and not is_given_up  # 4
    rows_total = progresses[0].rows_of_all_shards if progresses else None
    return Decision(is_done=is_done, is_given_up=is_given_up, rows_total=rows_total)


def decision_of(staging: Staging, transaction: AnyId, shards: Shards = NO_SHARDS) -> Decision:
    """Return what is known of a transaction; of a number also whether its series has passed it.

    Raises:
        CorruptionError: The mark of its series, or a manifest is damaged that may be of it.
    """
    decision = heard(staging, transaction, shards)
    if not decision.is_made and isinstance(transaction, TransactionId):
        return Decision(is_done=_is_passed(staging, transaction))
    return decision


def is_needed(staging: Staging, transaction: str, kind: int) -> bool:
    """Tell whether a shard that has a transaction's rows will be asked about it again.

    Of one that is staged, by whoever finishes it. Of a number also while the mark of its series
    has not reached it: if it was given up, it comes again.
    """
    numbered = id_of_name(transaction) if kind == KIND_NUMBERED else None
    try:
        decision = heard(staging, numbered or transaction)
    except CorruptionError:
        # Its own series is told; to others the damage is nothing.
        return True
    return decision.manifest is not None or not (decision.is_done or numbered is None)


def publish(
    staging: Staging,
    transaction: AnyId,
    parts: Parts,
    *,
    shards: Shards = NO_SHARDS,
    contents: Contents | None = None,
) -> Decision:
    """Decide a transaction: make durable parts its rows, unless it was decided before.

    Under the stream's lock. Of one that is done nothing stays staged; a number without parts is
    done at once.

    Raises:
        UnavailableError: Staged files are gone; nothing was decided.
        ForeignDataError: It was decided with other contents.
    """
    decision = decision_of(staging, transaction, shards)
    _refuse_other(staging, decision.contents, contents)
    if parts and not decision.is_made:
        _check_there(staging, transaction, parts)
        return Decision(write_manifest(staging, transaction, parts, contents))
    if decision.manifest is None:
        if isinstance(transaction, TransactionId):
            if decision.is_done:
                note_skipped(staging.stream, transaction.series)
            else:
                write_mark(staging.stream, transaction, contents)
        remove_transaction(staging.of(transaction))
    return decision


def rows_gone(staging: Staging, transaction: AnyId, path: Path) -> UnavailableError:
    """Return the error of rows that were deleted, or are on another machine's disk."""
    message = (
        f"the staged rows of transaction {name_of(transaction)!r} were deleted before they were "
        "published; stage them again"
    )
    return UnavailableError(message, stream=staging.stream.name, path=path)


def _is_passed(staging: Staging, transaction: TransactionId) -> bool:
    """Tell whether a later number of the series is decided, and is to be finished."""
    if transaction.number is None:
        return False
    staged = (manifest.id for manifest in staged_transactions(staging))
    return any(
        later.series == transaction.series and (later.number or 0) > transaction.number
        for later in staged
        if later is not None
    )


def _refuse_other(staging: Staging, decided: Contents | None, contents: Contents | None) -> None:
    if contents is None or decided is None or contents == decided:
        return
    message = (
        f"the transaction was published with {decided.rows} rows, and is repeated with "
        f"{contents.rows} others; give other rows another id"
    )
    raise ForeignDataError(message, stream=staging.stream.name)


def _check_there(staging: Staging, transaction: AnyId, parts: Parts) -> None:
    ends: dict[str, int] = {}
    for part in (part for of_shard in parts.values() for part in of_shard):
        ends[part.file] = max(ends.get(part.file, 0), part.start + part.size)
    for file, end in ends.items():
        path = staging.of(transaction) / file
        if not path.is_file() or path.stat().st_size < end:
            raise rows_gone(staging, transaction, path)
