"""Rows with schemas: kept in their own batch, shown by their registry's id, found by anybody."""

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from storage_core import (
    AppendReport,
    CorruptionError,
    InvalidRequestError,
    SchemaEntry,
    StagedRows,
    StagingArea,
    Stream,
    StreamReader,
    TransactionId,
    UnsupportedFormatError,
    describe_stream,
)
from tests.log.hooked_disk import HookedDisk
from tests.log.on_disk import rewrite
from tests.log.schemas import BYTES, LONG, LONG_ANEW, STRING, schema_entry
from tests.log.workbench import Workbench, batch_of, column_of
from tests.snapshots import snapshot

_WHEN = ("before", "after")
ALL = (LONG, STRING, BYTES, LONG_ANEW)


def put(
    bench: Workbench,
    schema: Sequence[int | None],
    schemas: Sequence[SchemaEntry] = ALL,
    first: int = 0,
    **columns: Any,
) -> AppendReport:
    """Append rows with schemas, whose primaries count from `first`."""
    primaries = columns.pop("primary", range(first, first + len(schema)))
    batch = batch_of(primaries, schema=list(schema), **columns)
    return bench.stream.append_batch(batch, schemas=schemas)


def ids_of(bench: Workbench, **conditions: Any) -> list[int | None]:
    return column_of(bench.stream.read(columns=["schema_id"], **conditions), "schema_id")


# --- what is kept and shown -------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["read", "scan", "tail"])
def test_rows_show_the_registry_id_and_fingerprint_of_their_schema(bench, reads):
    put(bench, [0, 1, None, 3])
    bench.commit()
    columns = ["schema_fingerprint", "primary", "schema_id"]
    positional = (0, None, None, None, columns) if reads == "tail" else ()
    named = {} if reads == "tail" else {"columns": columns}
    answer = getattr(bench.stream, reads)(*positional, **named)
    rows = [
        tuple(row.values())
        for row in (
            answer.to_pylist()
            if reads == "read"
            else [row for batch in answer for row in batch.to_pylist()]
        )
    ]
    fingerprints = [(one.fingerprint, one.registry_id) for one in (LONG, STRING, LONG_ANEW)]
    assert rows == [
        (fingerprints[0][0], 0, 7),
        (fingerprints[1][0], 1, 8),
        (None, 2, None),
        (fingerprints[2][0], 3, 7),
    ]
    assert bench.stream.verify().is_clean


def test_same_registry_id_with_another_fingerprint_is_another_schema(bench):
    put(bench, [0], [LONG])
    put(bench, [0], [LONG_ANEW], first=1)
    assert bench.stream.schemas() == [LONG, LONG_ANEW]


def test_schemas_of_one_registry_id_are_found_the_newest_last(bench):
    lowest, highest = SchemaEntry(-(2**31), b"\0", "{}"), SchemaEntry(2**31 - 1, b"\xff" * 64, "{}")
    near = SchemaEntry(7, b"\xff" * 64, "{}")
    put(bench, [0, 1, 2, 3], [lowest, LONG_ANEW, STRING, highest])
    put(bench, [0, 1], [LONG, near], first=4)
    bench.commit()
    with bench.read_beside() as reader:
        for reads in (bench.stream, reader):
            assert reads.schemas(7) == [LONG_ANEW, LONG, near]
            assert reads.schemas(-(2**31)) == [lowest]
            assert reads.schemas(2**31 - 1) == [highest]
            assert [reads.schemas(one) for one in (6, 0, 2**31, -(2**40))] == [[]] * 4


def test_same_registry_id_with_another_logical_type_is_another_schema(bench):
    moments = schema_entry(7, '{"type": "long", "logicalType": "timestamp-millis"}')
    put(bench, [0], [LONG])
    put(bench, [0], [moments], first=1)
    bench.stream.commit()
    assert bench.stream.schemas() == [LONG, moments]
    fingerprints = bench.stream.read(columns=["schema_fingerprint"]).column(0).to_pylist()
    assert fingerprints == [LONG.fingerprint, moments.fingerprint]


def test_schema_that_no_row_has_is_not_kept(bench):
    put(bench, [2, None, 2])
    assert bench.stream.schemas() == [BYTES]


def test_schemas_and_rows_are_there_in_another_process_with_nothing_else(bench):
    put(bench, [1, 0, 1])
    bench.commit()
    with bench.read_beside() as reader:
        assert reader.schemas() == [STRING, LONG]
        assert column_of(reader.scan(columns=["schema_id"]), "schema_id") == [8, 7, 8]
        put(bench, [2], first=3)
        bench.commit()
        reader.refresh()
        assert column_of(reader.scan(columns=["schema_id"]), "schema_id") == [8, 7, 8, 9]
        assert reader.schemas() == [STRING, LONG, BYTES]


def test_tombstones_among_rows_of_one_schema_have_none(bench):
    put(bench, [0, None, 0], payload=[b"a", None, b"c"])
    bench.commit()
    assert ids_of(bench) == [7, None, 7]
    assert ids_of(bench, start=1) == [None, 7]


def staged(bench: Workbench, transaction: TransactionId, *tasks: Sequence[SchemaEntry]) -> Any:
    """Stage a row of each schema by each task, in turns; return the parts of all tasks."""
    area = StagingArea.open(bench.root, bench.name)
    parts: dict[int, tuple[StagedRows, ...]] = {}
    for task, schemas in enumerate(tasks):
        writer = area.writer(transaction)
        rows = batch_of([10 * at + task for at in range(len(schemas))], schema=range(len(schemas)))
        writer.write(rows, schemas=schemas)
        writer.write(batch_of([100 + task]))
        for shard, of_shard in writer.finish().items():
            parts[shard] = (*parts.get(shard, ()), *of_shard)
    return parts


def test_rows_that_tasks_staged_have_the_schemas_of_their_own_task(bench):
    for number in range(2):
        transaction = TransactionId("spark", number)
        parts = staged(bench, transaction, [LONG, STRING], [STRING, LONG_ANEW, BYTES])
        StagingArea.open(bench.root, bench.name).publish(transaction, parts)
        bench.stream.finish_transactions()
    once = [7, 8, 8, 7, 9, None, None]
    assert column_of(bench.stream.scan(columns=["schema_id"]), "schema_id") == once * 2
    assert bench.stream.schemas() == [LONG, STRING, LONG_ANEW, BYTES]
    assert bench.stream.verify().is_clean


def test_staged_rows_whose_schemas_are_not_given_are_refused(bench):
    writer = StagingArea.open(bench.root, bench.name).writer(TransactionId("spark", 1))
    with pytest.raises(InvalidRequestError, match="column 'schema' has 0, and 0 schemas"):
        writer.write(batch_of([1], schema=[0]))
    with pytest.raises(InvalidRequestError, match="schemas are SchemaEntry values"):
        writer.write(batch_of([1], schema=[0]), schemas=["long"])  # type: ignore[list-item]  # what a caller mistakes


# --- what programs that know nothing of it meet -----------------------------------------------


def test_every_row_has_its_schema_wherever_the_process_dies(make_bench, root):
    hooked, copies = HookedDisk(), 0
    moments = [f"{when} {call}" for call in ("write", "sync", "publish") for when in _WHEN]
    bench = make_bench(disk=hooked)

    def copy_store() -> None:
        nonlocal copies
        dead = root / f"dead-{copies}"
        snapshot(bench.directory, dead / bench.name)
        shutil.copy(bench.root / "root.json", dead)
        copies += 1

    for number, moment in enumerate(moments):
        hooked.on(moment, copy_store)
        new = schema_entry(100 + number, f'{{"type": "fixed", "name": "f", "size": {number + 1}}}')
        put(bench, [0, 1, 0], [new, LONG], first=3 * number)
        bench.commit()
    assert copies == len(moments)
    for number in range(copies):
        with Stream.open(root / f"dead-{number}", bench.name) as stream:
            registry_ids = {one.registry_id for one in stream.schemas()}
            ids = column_of(stream.read(columns=["schema_id"]), "schema_id")
            assert registry_ids == set(ids)
            assert ids == [one for at in range(len(ids) // 3) for one in (100 + at, 7, 100 + at)]
            stream.append_batch(batch_of([99], schema=[0]), schemas=[BYTES])
            assert stream.verify().is_clean


def features_of(bench: Workbench) -> list[str]:
    document = json.loads((bench.directory / "options.json").read_text())
    names: list[str] = document["options"].get("features", [])
    return names


def test_stream_names_the_feature_with_its_first_schema_and_not_before(bench):
    bench.keep([1])
    put(bench, [None, None], first=2)
    assert features_of(bench) == []
    put(bench, [0], first=4)
    assert features_of(bench) == ["schema_dictionary"]
    bench.stream.alter(reads_max=3)
    assert features_of(bench) == ["schema_dictionary"]


def test_feature_is_named_before_the_row_is_written(make_bench):
    hooked = HookedDisk()
    bench, seen = make_bench(disk=hooked), []
    hooked.on("before write", lambda: seen.append(features_of(bench)))
    put(bench, [0])
    assert seen == [["schema_dictionary"]]


def test_feature_that_this_program_lacks_is_refused_by_name(bench):
    bench.close()
    path = bench.directory / "options.json"
    options = json.loads(path.read_text())["options"]
    rewrite(path, options={**options, "features": ["later"]})
    for opens in (Stream.open, StreamReader.open, describe_stream):
        with pytest.raises(UnsupportedFormatError, match=r"lacks: later.*options\.json"):
            opens(bench.root, bench.name)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "schemas", "said"),
    [
        ([0, 1], [LONG], "column 'schema' has 1, and 1 schemas are given"),
        ([0, -1], [LONG], "column 'schema' has -1, and 1 schemas are given"),
        ([0, None], [], "column 'schema' has 0, and 0 schemas are given"),
        ([0, 0], ["long"], "schemas are SchemaEntry values, not 'long'"),
        ([0, 0], None, "schemas are SchemaEntry values, not None"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_and_nothing_changes(bench, schema, schemas, said):
    with pytest.raises(InvalidRequestError, match=said):
        put(bench, schema, schemas)
    assert bench.commit() == {0: 0}
    assert bench.stream.schemas() == []


def test_schemas_without_their_column_are_refused(bench):
    with pytest.raises(InvalidRequestError, match="column 'schema' is missing"):
        bench.stream.append_batch(batch_of([1]), schemas=[LONG])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((2**31, b"f", "t"), "a schema's registry id is a 32-bit integer, not 2147483648"),
        ((True, b"f", "t"), "a schema's registry id is a 32-bit integer, not True"),
        ((1, b"", "t"), "the fingerprint of schema 1 is 1 to 64 bytes"),
        ((1, "f", "t"), "the fingerprint of schema 1 is 1 to 64 bytes"),
        ((1, b"f", b"t"), "the text of schema 1 is not a string"),
        ((1, b"f", "\ud800"), "the text of schema 1 is not a string"),
        ((1, b"f", "x" * (2**24 + 1)), "the text of schema 1 has 16777217 bytes"),
    ],
)
def test_entry_that_cannot_be_kept_is_refused(values, said):
    with pytest.raises(InvalidRequestError, match=said):
        SchemaEntry(*values)


def test_row_whose_schema_is_gone_is_an_error_and_never_a_row_without_one(bench):
    put(bench, [0, 1])
    bench.close()
    bench.remove_schema(1)
    bench.open()
    assert bench.primaries() == [0, 1]
    for read in (bench.stream.schemas, lambda: ids_of(bench)):
        with pytest.raises(CorruptionError, match="schema number 1 was assigned, and its entry is"):
            read()
