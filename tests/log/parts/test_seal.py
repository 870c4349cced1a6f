"""Goal: a sealed row is in exactly one part, as it came, and the log keeps it all the same.

Method: random rows of every kind are appended and sealed step by step; parts are read by pyarrow
alone and compared with what the log tells.
"""

import resource
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    Stream,
    UnavailableError,
)
from storage_core.avro import frame_of
from tests.log.parts.parts_lab import BROKEN, FIRST_MS, NAME, PartsLab, schema_of


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root, key_mode=key_mode)
    yield lab
    lab.stream.close()


def test_parts_have_each_row_once_as_it_came(lab):
    rng = np.random.default_rng(3)
    for step in range(4):
        lab.append(rng, 300)
        report = lab.stream.seal()
        assert report.rows == 300
        if step == 1:
            lab.reopen()
    assert lab.rows_of_parts() == lab.rows()
    assert lab.stream.verify().problems == ()


def test_payload_is_left_out_where_fields_can_make_it_again(lab):
    lab.append(np.random.default_rng(4), 500)
    lab.stream.seal()
    kinds = {part.entry.kind for part in lab.stream.parts()}
    assert kinds == {"", "Telemetry", "Alarm"}
    for part in lab.stream.parts():
        remaining = {row.get("payload") for row in pq.read_table(part.path).to_pylist()}
        if part.entry.kind:
            assert remaining <= {None, BROKEN}


def test_late_rows_are_in_parts_of_their_own(lab):
    lab.append(np.random.default_rng(5), 500)
    lab.stream.seal()
    for part in lab.stream.parts():
        states = pq.read_table(part.path, columns=["state"]).column("state").to_pylist()
        assert {state == 0 for state in states} == {not part.entry.is_out_of_order}


@pytest.mark.parametrize("key_mode", ["none", "dictionary"])
def test_rows_of_a_part_are_sorted_and_its_entry_tells_their_ends(lab):
    lab.append(np.random.default_rng(6), 500)
    lab.stream.seal()
    assert len(lab.stream.parts()) > 6
    for part in lab.stream.parts():
        entry = part.entry
        rows = pq.read_table(part.path, columns=[lab.id_column, "primary", "address"]).to_pylist()
        by = [
            (row[lab.id_column] or b"" if lab.has_keys else row[lab.id_column], row["primary"])
            for row in rows
        ]
        assert by == sorted(by)
        assert (entry.first, entry.last) == (
            min(row["address"] for row in rows),
            max(row["address"] for row in rows),
        )
        assert entry.primary_min == min(row["primary"] for row in rows)
        assert entry.primary_max == max(row["primary"] for row in rows)
        assert (entry.rows, entry.size) == (len(rows), part.path.stat().st_size)


@pytest.mark.parametrize("key_mode", ["none", "dictionary"])
def test_file_says_that_rows_without_a_key_come_first(lab):
    # Who trusts the order that a file claims would miss them at the begin.
    lab.append(np.random.default_rng(14), 50)
    lab.stream.seal()
    for part in lab.stream.parts():
        with pq.ParquetFile(part.path) as file:
            claimed = file.metadata.row_group(0).sorting_columns
            names = [file.metadata.schema.column(one.column_index).name for one in claimed]
        assert names == [lab.id_column, "primary", "address"]
        assert all(one.nulls_first and not one.descending for one in claimed)


def test_nothing_waits_after_a_seal_and_few_rows_may_wait(lab):
    rng = np.random.default_rng(7)
    lab.append(rng, 50)
    assert lab.stream.seal(rows_min=1000).rows == 0
    assert lab.stream.parts() == []
    assert lab.stream.seal().rows == 50
    assert lab.stream.seal().rows == 0


def test_rows_that_are_not_committed_are_not_sealed(tmp_path):
    with Stream.create(tmp_path, NAME) as stream:
        for number in range(10):
            stream.append(FIRST_MS + number, number, b"x")
        assert stream.seal().rows == 0
        stream.commit()
        assert stream.seal().rows == 10


def test_parts_of_expired_rows_go_with_their_files(tmp_path):
    lab = PartsLab(tmp_path, retention=None)
    rng = np.random.default_rng(11)
    for _ in range(3):
        lab.append(rng, 200)
        lab.stream.seal()
    before = lab.stream.parts()
    day_ms = 86_400_000
    lab.stream.alter(retention=timedelta(days=1))
    lab.stream.expire(now=FIRST_MS + 3 * day_ms, dry_run=True)
    assert lab.stream.parts() == before
    lab.stream.expire(now=FIRST_MS + 3 * day_ms)
    assert lab.stream.parts() == []
    assert not any(part.path.exists() for part in before)
    assert list(tmp_path.rglob("*.parquet")) == []
    assert lab.stream.verify().problems == ()
    lab.stream.close()


def test_seal_that_fails_leaves_no_file_to_fill_the_disk(tmp_path):
    """A file that may not grow any more stands for a disk that is full."""
    lab = PartsLab(tmp_path)
    noise = [one.bytes(1000) for one in [np.random.default_rng(15)] * 2000]
    ids = pa.array([1, 2] * 1000, pa.int32())
    rows: dict[str, Any] = {"primary": pa.array(range(2000)), "secondary": ids, "payload": noise}
    lab.stream.append_batch(pa.RecordBatch.from_pydict(rows))
    lab.stream.commit()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, usual[1]))
    try:
        with pytest.raises(UnavailableError, match="parts cannot be built"):
            lab.stream.seal()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert list(tmp_path.glob("*/*/parts/*")) == []
    assert lab.stream.seal().rows == 2000
    lab.stream.close()


def test_rows_min_is_checked(lab):
    with pytest.raises(InvalidRequestError, match="rows_min: 'many' is not an integer"):
        lab.stream.seal("many")


def test_fields_without_width_are_sealed_by_their_payloads(tmp_path):
    lab = PartsLab(tmp_path)
    nothing = {"type": "fixed", "name": "Nothing", "size": 0}
    fields: list[dict[str, Any]] = [{"name": "none", "type": nothing}, {"name": "n", "type": "int"}]
    schema = schema_of([*fields, {"name": "by", "type": {"type": "map", "values": "Nothing"}}])
    body = b"\x02\x02\x02a\x00"
    lab.append_bodies(schema, [body] * 3, 40)
    assert lab.stream.seal().rows == 3
    tables = [pq.read_table(part.path) for part in lab.stream.parts()]
    assert [value for table in tables for value in table.column("n").to_pylist()] == [1] * 3
    assert [row["payload"] for row in lab.rows()] == [frame_of(schema, 40) + body] * 3
    lab.stream.close()


def test_values_without_fields_are_sealed_by_their_payloads(root):
    lab = PartsLab(root)
    lab.append_bodies(schema_of([], "Nothing"), [b"", b""], 41)
    assert lab.stream.seal().rows == 2
    assert lab.rows_of_parts() == lab.rows()
    lab.stream.close()


def test_what_others_put_beside_parts_stays(lab):
    lab.append(np.random.default_rng(31), 50)
    lab.stream.seal()
    directory = lab.stream.parts()[0].path.parent
    (directory / "folder").mkdir()
    for name in ("note.txt", "part-notes.parquet", "part-99999999999.parquet"):
        (directory / name).write_text("mine")
    (directory / "part-0000000999.rows").write_bytes(b"of a crash")
    lab.append(np.random.default_rng(32), 200)
    lab.stream.seal()
    left = {one.name for one in directory.iterdir()}
    assert {"folder", "note.txt", "part-notes.parquet", "part-99999999999.parquet"} < left
    assert "part-0000000999.rows" not in left


def lose_a_block(bench):
    """Let ten of fifty rows be lost, and known as that."""
    bench.close()
    bench.damage_block(20)
    bench.open()
    with pytest.raises(CorruptionError):
        bench.primaries()


@pytest.mark.parametrize("step", [Stream.seal, Stream.trim])
def test_step_ends_where_rows_are_lost_and_goes_on_once_the_loss_is_accepted(make_bench, step):
    bench = make_bench()
    for first in range(0, 50, 10):
        bench.keep(range(first, first + 10))
    if step is Stream.trim:
        bench.stream.seal()
    lose_a_block(bench)
    assert [step(bench.stream).rows for _ in range(2)] == [20, 0]
    bench.stream.accept_loss(0, 20, 30)
    assert step(bench.stream).rows == 20
    assert bench.primaries() == [*range(20), *range(30, 50)]
