"""The columns of a stream that has no rows to show: of one made just now, or all expired.

A query that runs as rows come must not fail before the first one does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from storage_core.parts.shown_values import layout_of
from storage_core.read.columns import read_schema
from storage_core.sealed.part_values import Writer, shown_type

_ENVELOPE: Final = ("primary", "address", "version", "state", "payload")
_untyped: Any = pa


def tables_without_rows(writers: Mapping[int, Writer], *, has_keys: bool) -> Iterator[pa.Table]:
    """Yield a table without rows for bytes, and one for each kind of value that schemas know."""
    envelope = list(read_schema(("shard", "key" if has_keys else "secondary", *_ENVELOPE)))
    yield _untyped.schema(envelope).empty_table()
    kinds: dict[str, list[int]] = {}
    for number, writer in writers.items():
        kinds.setdefault(writer.schema.full_name, []).append(number)
    for numbers in kinds.values():
        fields = [one.with_type(shown_type(one.type)) for one in layout_of(writers, numbers).types]
        of_kind = [*envelope, read_schema(("schema_id",)).field(0), *fields]
        yield _untyped.schema(of_kind).empty_table()
