"""Goal: values of several types under one name lose nothing when they are one column.

Method: every two types are appended under one name (tests/log/sql/unlike_types.py), alone and in
lists, maps and records; SQL's answer is compared with the plain values.
"""

from typing import Any

import pyarrow as pa

from storage_core.sql import connect
from tests.log.parts.parts_lab import NAME, PartsLab, Row
from tests.log.sql.unlike_types import KINDS, UNREAD, WRAPS, append_pairs, faults_in, pairs_of
from tests.thin import thinned


def _countable(kind: Any) -> Any:
    """Return a type that Python has values for, of a type of nanoseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_countable(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _countable(kind.item_type))
    return pa.list_(_countable(kind.value_type)) if pa.types.is_list(kind) else kind


def rows_by_sql(lab: PartsLab) -> list[Row]:
    with connect(lab.root) as streams:
        result = streams.sql(f"SELECT * FROM {NAME} ORDER BY address").to_arrow_table()
    kinds = pa.schema([one.with_type(_countable(one.type)) for one in result.schema])
    rows: list[Row] = result.cast(kinds).to_pylist()
    return rows


@thinned("wrap", WRAPS, count=1)
def test_values_of_every_two_types_are_shown_as_they_are(root, wrap):
    pairs = pairs_of(KINDS | UNREAD)
    lab = PartsLab(root)
    append_pairs(lab, pairs, wrap)
    for _ in range(2):
        assert list(faults_in(rows_by_sql(lab), pairs, wrap)) == []
        lab.stream.seal()
    lab.stream.close()


@thinned("wrap", ["alone", "records"], count=1)
def test_versions_of_a_schema_keep_their_types_in_one_part(root, wrap):
    pairs = pairs_of(KINDS | UNREAD)
    lab = PartsLab(root)
    for _ in range(5):
        append_pairs(lab, pairs, wrap, ("One", "One"))
        lab.stream.seal()
    rows = lab.rows()
    lab.stream.compact()
    assert len(lab.stream.parts()) == 1
    visible = rows_by_sql(lab)
    assert list(faults_in(visible[:2], pairs, wrap)) == []
    assert list(faults_in(visible[-2:], pairs, wrap)) == []
    lab.stream.trim()
    assert lab.rows() == rows
    lab.stream.close()
