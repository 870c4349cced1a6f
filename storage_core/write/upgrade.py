"""What opening does, once, to a shard that format version 1 wrote.

In version 1 each transaction ever had an entry under `m txn/`, the unfinished one too, and
callers' attachments lay under any key that was not the log's. Afterwards there is a ledger,
and attachments lie under a prefix of their own. The entries of transactions that are done stay
where they are: they are looked up by key, and to delete them would leave as many tombstones
where the state is read.

Its cost grows with what it moves and with the transactions there were; a shard with a ledger
is not asked. Stopped half-way it goes on: each batch says the last key that it moved.

What was moved must not be taken for what is still to be moved, nor be overwritten by it, since
callers' keys may begin with the prefix too. A key above `aaa...` moves down, so those go in
rising order, into room that was gone through; the others move up, and go in falling order.

A catalogue of parts that has no sum yet is given one too.
"""

import struct
from collections.abc import Iterator
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.format.keys import (
    FAMILY_DEFAULT,
    PREFIX_ATTACHMENT,
    PREFIX_META,
    PREFIX_PART,
    attachment_key,
    meta_key,
    prefix_end,
)
from storage_core.format.part_entry import CATALOGUE_SUMS, entry_sum
from storage_core.format.shard_state import (
    KEY_REMOVED,
    KEY_TRANSACTIONS,
    Ledger,
    TransactionProgress,
    decode_progress,
    encode_ledger,
    transaction_key,
)
from storage_core.store.key_value import Batch, Item, KeyValueStore, StoreView

_PREFIXES: Final = b"dhilmwz"
_TRANSACTIONS: Final = (meta_key("txn/"), meta_key("txn0"))
_NAMES: Final = frozenset(
    meta_key(name)
    for name in ("next", "lineage", "generation", "born", "start", "floor", "heads", "source")
)
_PREFIXES_OF_STATE: Final = tuple(meta_key(name) for name in ("lost/", "gap/", "pass/"))
_MOVED_AT_ONCE: Final = 1024
# While attachments are being moved: the last key that was.
_KEY_MOVED: Final = meta_key("attachments moved through")


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
        for key, value in _attachments(view, _moved_through(view)):
            batch.delete(key)
            batch.put(attachment_key(key), value)
            if len(batch.puts) >= _MOVED_AT_ONCE:
                batch.put(_KEY_MOVED, key)
                store.write(batch)
                batch = Batch()
    finally:
        view.close()
    batch.delete(_KEY_MOVED)
    if ledger.begun is not None:
        batch.delete(transaction_key(ledger.begun[0]))
    # IMPORTANT: with the last of what is moved; from here on nobody looks for it again.
    batch.put(KEY_TRANSACTIONS, encode_ledger(ledger))
    # Version 1 did not note whether it gave a transaction up.
    batch.put(KEY_REMOVED, b"")
    store.write(batch)
    return ledger


def sum_of_catalogue(store: KeyValueStore) -> int:
    """Return the sum over the entries of a shard's parts, which were made before it was kept.

    It is written when they change next, and proves them from then on.
    """
    view = store.view()
    try:
        entries = view.items(FAMILY_DEFAULT, PREFIX_PART, prefix_end(PREFIX_PART))
        return sum(entry_sum(key, entry) for key, entry in entries) % CATALOGUE_SUMS
    finally:
        view.close()


def _moved_through(view: StoreView) -> bytes | None:
    item = view.at_or_after(FAMILY_DEFAULT, _KEY_MOVED)
    return item[1] if item is not None and item[0] == _KEY_MOVED else None


def _attachments(view: StoreView, moved: bytes | None) -> Iterator[Item]:
    """Yield what lies under keys that were not the log's own, in the order in which it moves."""
    if moved is None or not _moves_up(moved):
        after = b"" if moved is None else moved + b"\0"
        for start, end in _stretches():
            first = max(start, after)
            if end is None or first < end:
                for key, value in view.items(FAMILY_DEFAULT, first, end):
                    if not (_moves_up(key) or _is_of_state(key)):
                        yield key, value
    before = prefix_end(PREFIX_ATTACHMENT) if moved is None or not _moves_up(moved) else moved
    keys = [key for key, _ in view.items(FAMILY_DEFAULT, b"", before) if _moves_up(key)]
    for key in reversed(keys):
        item = view.at_or_after(FAMILY_DEFAULT, key)
        assert item is not None, "a view does not change"
        yield item


def _stretches() -> Iterator[tuple[bytes, bytes | None]]:
    """Yield rising ranges of keys that are not the log's own; state lies among them."""
    first = PREFIX_ATTACHMENT
    for prefix in (bytes([one]) for one in _PREFIXES):
        yield first, prefix
        if prefix == PREFIX_META:
            yield prefix, _TRANSACTIONS[0]
            yield _TRANSACTIONS[1], prefix_end(prefix)
        first = prefix_end(prefix)
    yield first, None


def _moves_up(key: bytes) -> bool:
    """Tell whether a key lies below itself with the prefix before it."""
    return key < attachment_key(key)


def _is_of_state(key: bytes) -> bool:
    return key == _KEY_MOVED or key in _NAMES or key.startswith(_PREFIXES_OF_STATE)


def _progress(key: bytes, value: bytes, shard: int) -> TransactionProgress:
    try:
        key.decode()
        return decode_progress(value)
    except (struct.error, ValueError) as error:
        message = f"what the shard knows of transaction {key!r} cannot be read: {error}"
        raise CorruptionError(message, shard=shard) from error
