"""What opening does, once, to a shard that format version 1 wrote.

In version 1 each transaction ever had an entry under `m txn/`, the unfinished one too, and
callers' attachments lay under any key that was not the log's. Afterwards there is a ledger,
and attachments lie under a prefix of their own. The entries of transactions that are done stay
where they are: they are looked up by key, and to delete them would leave as many tombstones
where the state is read.

Its cost grows with what it moves and with the transactions there were; a shard with a ledger
is not asked. Stopped half-way it is done again.
"""

import struct
from collections.abc import Iterator
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.keys import FAMILY_DEFAULT, PREFIX_META, attachment_key, meta_key, prefix_end
from storage_core.rocks import Batch, Item, KeyValueStore, StoreView
from storage_core.shard_state import (
    KEY_REMOVED,
    KEY_TRANSACTIONS,
    Ledger,
    TransactionProgress,
    decode_progress,
    encode_ledger,
    transaction_key,
)

_PREFIXES: Final = b"dhilmwz"
_TRANSACTIONS: Final = (meta_key("txn/"), meta_key("txn0"))
_NAMES: Final = frozenset(
    meta_key(name)
    for name in ("next", "lineage", "generation", "born", "start", "floor", "heads", "source")
)
_PREFIXES_OF_STATE: Final = tuple(meta_key(name) for name in ("lost/", "gap/", "pass/"))
_MOVED_AT_ONCE: Final = 1024


def begun_in_version_1(store: KeyValueStore, shard: int) -> tuple[str, TransactionProgress] | None:
    """Return the unfinished transaction of a shard without a ledger.

    Raises:
        CorruptionError: An entry cannot be read.
    """
    view = store.view()
    try:
        for key, value in view.items(FAMILY_DEFAULT, *_TRANSACTIONS):
            progress = _progress(key, value, shard)
            if not progress.is_done:
                return key[len(_TRANSACTIONS[0]) :].decode(), progress
    finally:
        view.close()
    return None


def upgrade_shard(store: KeyValueStore, shard: int) -> Ledger:
    """Give a shard of version 1 its ledger; not yet durable on return.

    Raises:
        CorruptionError: An entry cannot be read.
    """
    ledger = Ledger(begun_in_version_1(store, shard))
    view = store.view()
    try:
        batch = Batch()
        for key, value in _attachments(view):
            batch.delete(key)
            batch.put(attachment_key(key), value)
            if len(batch.puts) >= _MOVED_AT_ONCE:
                store.write(batch)
                batch = Batch()
    finally:
        view.close()
    if ledger.begun is not None:
        batch.delete(transaction_key(ledger.begun[0]))
    # IMPORTANT: with the last of what is moved; from here on nobody looks for it again.
    batch.put(KEY_TRANSACTIONS, encode_ledger(ledger))
    # Version 1 did not note whether it gave a transaction up.
    batch.put(KEY_REMOVED, b"")
    store.write(batch)
    return ledger


def _attachments(view: StoreView) -> Iterator[Item]:
    """Yield what lies under keys that were not the log's own."""
    first = b""
    for prefix in (bytes([one]) for one in _PREFIXES):
        yield from view.items(FAMILY_DEFAULT, first, prefix)
        first = prefix_end(prefix)
    yield from view.items(FAMILY_DEFAULT, first, None)
    for start, end in (
        (PREFIX_META, _TRANSACTIONS[0]),
        (_TRANSACTIONS[1], prefix_end(PREFIX_META)),
    ):
        for key, value in view.items(FAMILY_DEFAULT, start, end):
            if key not in _NAMES and not key.startswith(_PREFIXES_OF_STATE):
                yield key, value


def _progress(key: bytes, value: bytes, shard: int) -> TransactionProgress:
    try:
        key.decode()
        return decode_progress(value)
    except (struct.error, ValueError) as error:
        message = f"what the shard knows of transaction {key!r} cannot be read: {error}"
        raise CorruptionError(message, shard=shard) from error
