"""The digest of a row: what tells it from any other that may ever be at its address.

Who was told of a shard's rows up to an address keeps the digest of the last one. Where an older
copy of the stream was put in its place and others wrote on, or the stream was made anew, another
row is there. Where a row lies, in a block or in a part, does not change it.
"""

from typing import Final

import pyarrow as pa

from storage_core.platform.xxh3 import xxh3_128_hexdigest

_IDENTITY: Final = ("secondary", "primary", "address", "version", "key", "payload")


def identity_columns(*, has_keys: bool) -> list[str]:
    """Return the stored columns that a digest is of."""
    return [name for name in _IDENTITY if not (has_keys and name == "secondary")]


def row_digests(rows: pa.RecordBatch) -> list[str]:
    """Return the digest of each of some rows, which have the columns of `identity_columns`."""
    return [xxh3_128_hexdigest(repr([row]).encode()) for row in rows.to_pylist()]
