"""Which rows of the model have schemas: those of every other batch, each by its version.

So the lists need no more than they draw: a batch of an odd number of records brings a schema for
each of some versions, and the others none. Two of them have one registry id.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from storage_core import SchemaEntry
from tests.log.schemas import LONG, LONG_ANEW, STRING
from tests.strategies import Given

OF_VERSION: Final = {1: LONG, 2: STRING, 2**16 - 1: LONG_ANEW}
Shown = tuple[int | None, bytes | None]
NOTHING: Final[Shown] = (None, None)


def brings_schemas(records: Sequence[Given]) -> bool:
    """Tell whether the rows of a batch have schemas."""
    return len(records) % 2 == 1


def shown_of(version: int) -> Shown:
    """Return what a row of such a batch shows of its schema."""
    entry = OF_VERSION.get(version)
    return NOTHING if entry is None else (entry.registry_id, entry.fingerprint)


def with_schemas(
    batch: pa.RecordBatch | pa.Table, records: Sequence[Given]
) -> tuple[pa.RecordBatch | pa.Table, list[SchemaEntry]]:
    """Return a batch with a column of schemas where it brings any, and the schemas."""
    if not brings_schemas(records):
        return batch, []
    versions = [one.version for one in reversed(records) if one.version in OF_VERSION]
    named = list(dict.fromkeys(versions))
    places = [named.index(one.version) if one.version in named else None for one in records]
    column = pa.array(places, pa.int32())
    return batch.append_column("schema", column), [OF_VERSION[one] for one in named]
