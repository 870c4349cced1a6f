"""Schemas that change while a stream is published: columns come before the rows that need them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from storage_core.lake.table import LakeTable
from tests.lake.publish.publish_lab import PublishLab
from tests.log.parts.parts_lab import schema_of

_INNER: dict[str, Any] = {"name": "x", "type": "int"}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Place", "fields": list(fields)}


@pytest.fixture
def lab(root):
    lab = PublishLab(root, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()


def column(lab, *names: str) -> list[tuple[Any, ...]]:
    """Return columns of the table, by shard and address."""
    rows: list[dict[str, Any]] = lab.opened().to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["shard"], row["address"]))
    return [tuple(row.get(name) for name in names) for row in rows]


def test_field_that_is_added_and_one_of_another_type_get_columns(lab):
    first = schema_of([{"name": "size", "type": "int"}], "Thing")
    second = schema_of(
        [{"name": "size", "type": "string"}, {"name": "hue", "type": "int"}], "Thing"
    )
    lab.append_values(first, [{"size": 1}, {"size": 2}], 40)
    lab.stream.seal()
    lab.publish()
    lab.append_values(second, [{"size": "large", "hue": 7}], 41)
    lab.stream.seal()
    lab.publish()
    lab.check()
    assert column(lab, "size", "size_string", "hue") == [
        (1, None, None),
        (2, None, None),
        (None, "large", 7),
    ]


def test_record_that_grows_keeps_what_was_there(lab):
    later = {"name": "y", "type": ["null", "int"], "default": None}
    first = schema_of([{"name": "place", "type": record(_INNER)}], "Thing")
    second = schema_of([{"name": "place", "type": record(_INNER, later)}], "Thing")
    lab.append_values(first, [{"place": {"x": 1}}], 40)
    lab.stream.seal()
    lab.publish()
    lab.append_values(second, [{"place": {"x": 2, "y": 3}}], 41)
    lab.stream.seal()
    lab.publish()
    lab.check()
    assert column(lab, "place") == [({"x": 1, "y": None},), ({"x": 2, "y": 3},)]


def test_parts_of_several_schemas_that_were_merged_have_all_columns(lab):
    for number in range(6):
        names = [f"field_{at}" for at in range(number + 1)]
        fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
        schema = schema_of(fields, "Thing")
        lab.append_values(schema, [dict.fromkeys(names, number)], 40 + number)
        lab.stream.seal()
        lab.publish()
    lab.stream.compact()
    lab.publish()
    lab.check()
    assert column(lab, "field_0", "field_5") == [
        *((number, None) for number in range(5)),
        (5, 5),
    ]


def test_publisher_that_is_overtaken_while_it_adds_columns_doubles_nothing(lab, monkeypatch):
    first = schema_of([{"name": "size", "type": "int"}], "Thing")
    second = schema_of([{"name": "hue", "type": "int"}], "Thing")
    lab.append_values(first, [{"size": 1}], 40)
    lab.stream.seal()
    lab.publish()
    lab.append_values(second, [{"hue": 7}], 41)
    lab.stream.seal()
    add_columns, reload = LakeTable.add_columns, LakeTable.reload

    def overtaken(table: LakeTable) -> None:
        monkeypatch.undo()
        lab.publish()
        lab.append_values(second, [{"hue": 8}], 41)
        lab.stream.seal()
        lab.publish()
        reload(table)

    def overtaken_before_it_loads(table: LakeTable, fields: Sequence[Any]) -> None:
        monkeypatch.setattr(LakeTable, "reload", overtaken)
        add_columns(table, fields)

    monkeypatch.setattr(LakeTable, "add_columns", overtaken_before_it_loads)
    lab.publish()
    lab.check()
    assert [row[1] for row in column(lab, "size", "hue")] == [None, 7, 8]
