"""Rows staged over a server, transactions made by it: once, whatever is lost, killed or hostile."""

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage_core import (
    Contents,
    ForeignDataError,
    InvalidRequestError,
    SchemaEntry,
    ShardLockedError,
    StagedRows,
    StagingArea,
    Stream,
    StreamOptions,
    StreamReader,
    TransactionId,
    UnavailableError,
    drop_stream,
    list_streams,
)
from storage_core.protocol import PROTOCOL
from storage_core.remote.staging_client import StagingClient, create_by_server
from storage_core.staged_answers import create
from storage_core.transactions.staged_batch import StagedBatch, Waiting
from tests.log.serve.relay import Relay
from tests.log.serve.served import serving
from tests.log.serve.serving_process import server_process
from tests.log.serve.writers.staged import (
    NUMBERED,
    PATIENT,
    land,
    left,
    rows,
    staged,
    stored,
    writing,
)
from tests.log.served import AT_ONCE, served
from tests.log.workbench import Workbench, batch_of
from tests.tidy.tree import ROOT
from tests.waiting import WAIT_MAX_S

PLAIN = TransactionId("write")
BOTH = pytest.mark.parametrize("transaction", [NUMBERED, PLAIN], ids=["numbered", "plain"])


@pytest.fixture
def bench(make_bench: Any) -> Workbench:
    """A stream of two shards that nobody holds."""
    bench: Workbench = make_bench(shards=2)
    bench.release()
    return bench


# --- as by path -------------------------------------------------------------------------------


@BOTH
def test_rows_staged_over_a_server_land_once_and_leave_nothing(bench, transaction):
    with writing(bench) as area:
        parts = staged(area, transaction, range(10))
        assert (stored(bench), sorted(parts)) == ([], [0, 1])
        land(area, transaction, parts)
        land(area, transaction, parts)
    assert (stored(bench), left(bench)) == (list(range(10)), [])


def test_client_knows_the_stream_as_by_path(bench):
    by_path = StagingArea.open(bench.root, bench.name)
    by_path.claim("name", "one")
    with writing(bench) as area:
        for name in ("root_id", "incarnation", "unit", "jitter", "shards", "options", "origin"):
            assert getattr(area, name) == getattr(by_path, name)
        assert area.claim("name", "two") == "one"
        assert area.claim("name", "two", takes_over=True) == "two"
        land(area, NUMBERED, staged(area, NUMBERED, range(4)))
        for name, of in (("is_decided", NUMBERED), ("contents", NUMBERED), ("mark", "app")):
            assert getattr(area, name)(of) == getattr(by_path, name)(of) is not None


@pytest.mark.parametrize("options", ["[]", "null", "7", '"shards"'])
def test_options_of_a_stream_that_are_no_object_are_refused_in_a_line(tmp_path, options):
    with pytest.raises(InvalidRequestError, match="a JSON object of its options, not"):
        create(tmp_path, "made", options)


def test_stream_is_made_by_a_server_with_its_options(bench):
    options = StreamOptions(shards=4, unit="us", retention=timedelta(days=3))
    with served(bench.root, is_writable=True) as address:
        create_by_server(address, "made", options)
        with pytest.raises(InvalidRequestError, match="the stream exists"):
            create_by_server(address, "made", options)
        with pytest.raises(InvalidRequestError, match="bad stream name"):
            create_by_server(address, "../made", options)
    with StreamReader.open(bench.root, "made") as reader:
        assert reader.options == options


def test_large_batches_are_sent_in_pieces_and_land_in_order(bench, monkeypatch):
    monkeypatch.setattr("storage_core.remote.staging_client._SENT_BYTES", 4096)
    monkeypatch.setattr("storage_core.remote.staging_client._BATCH_BYTES", 1024)
    with writing(bench) as area:
        parts = staged(area, NUMBERED, range(2000))
        assert len({part.file for part in parts[0]}) > 5
        land(area, NUMBERED, parts)
    assert stored(bench) == list(range(2000))
    with StreamReader.open(bench.root, bench.name) as reader:
        assert reader.stats().late_arrivals == 0


@BOTH
def test_more_parts_than_a_request_names_land_once_and_in_order(bench, transaction, monkeypatch):
    monkeypatch.setattr("storage_core.remote.staging_client._NAMED_MAX", 3)
    with writing(bench) as area:
        pieces = [staged(area, transaction, range(n, n + 10)) for n in range(0, 100, 10)]
        parts = {shard: sum((piece[shard] for piece in pieces), ()) for shard in (0, 1)}
        land(area, transaction, parts)
        land(area, transaction, parts)
    assert (stored(bench), left(bench)) == (list(range(100)), [])
    with StreamReader.open(bench.root, bench.name) as reader:
        assert reader.stats().late_arrivals == 0


def test_more_parts_than_a_body_holds_are_no_reason_to_refuse(bench):
    parts = {0: [StagedRows(f"{n:016x}/0.arrow", 0, 1, 1, "") for n in range(400_000)]}
    with (
        writing(bench) as area,
        pytest.raises(UnavailableError, match="deleted before they were published"),
    ):
        land(area, NUMBERED, parts)


def test_many_small_batches_are_sent_as_few(bench):
    many = rows(range(5000))
    with serving(bench.root, is_writable=True) as served_:
        address = f"shardlog://{served_.server.address}"
        with StagingClient.open(address, bench.name, options=PATIENT) as area:
            writer = area.writer(NUMBERED)
            for place in range(5000):
                writer.write(many.slice(place, 1))
            land(area, NUMBERED, writer.finish())
        # Beside its rows each batch takes some hundred bytes, which count for rows, too.
        assert served_.metric("shardlog_server_staged_bytes_total") < 10 * many.nbytes
    assert stored(bench) == list(range(5000))


def test_rows_with_keys_and_schemas_are_stored_with_them(make_bench):
    bench = make_bench(shards=2, key_mode="dictionary")
    bench.release()
    schemas = [SchemaEntry(7, b"f" * 8, '"long"'), SchemaEntry(9, b"g" * 8, '"string"')]
    batch = batch_of([1, 2, 3], key=[b"a", b"b", None], schema=[0, 1, 0]).drop_columns("secondary")
    with writing(bench) as area:
        writer = area.writer(NUMBERED)
        writer.write(batch, schemas=schemas)
        writer.write(batch.drop_columns("schema"))
        land(area, NUMBERED, writer.finish())
    with StreamReader.open(bench.root, bench.name) as reader:
        table = reader.read(columns=["primary", "key", "schema_id"])
        values = {tuple(row.values()) for row in table.to_pylist()}
        assert values == {
            *((1, b"a", None), (1, b"a", 7), (2, b"b", None), (2, b"b", 9)),
            *((3, None, None), (3, None, 7)),
        }
        assert {entry.text for entry in reader.schemas()} == {'"long"', '"string"'}


CLIENT_ALONE = """
import sys
for name in ("rocksdict", "confluent_kafka", "duckdb", "pydantic"):
    sys.modules[name] = None
import pyarrow as pa
from storage_core import TransactionId
from storage_core.remote.staging_client import StagingClient
from storage_core.transactions.staged_batch import StagedBatch, Waiting
with StagingClient.open(sys.argv[1], sys.argv[2]) as area:
    id_ = TransactionId("app", 1)
    writer = area.writer(id_)
    ids = pa.array([1, 2], pa.int32())
    columns = {"primary": [1, 2], "secondary": ids, "payload": [b"x", b"y"]}
    writer.write(pa.RecordBatch.from_pydict(columns))
    area.land(StagedBatch(id_, writer.finish(), None), Waiting(60, "a test"))
"""


def test_machine_without_the_store_writes_over_a_server(bench):
    with served(bench.root, is_writable=True) as address:
        command = [sys.executable, "-c", CLIENT_ALONE, address, bench.name]
        subprocess.run(command, cwd=ROOT, check=True)
    assert stored(bench) == [1, 2]


def test_batch_that_comes_again_with_other_rows_is_refused(bench):
    with writing(bench) as area:
        land(area, NUMBERED, staged(area, NUMBERED, range(4)))
        with pytest.raises(ForeignDataError, match="published with 4 rows"):
            land(area, NUMBERED, staged(area, NUMBERED, range(6)))
        area.discard(NUMBERED, [])
    assert stored(bench) == list(range(4))


def test_rows_that_do_not_fit_are_told_and_leave_nothing(bench):
    with writing(bench) as area:
        writer = area.writer(NUMBERED)
        writer.write(rows([1]).drop_columns(["payload"]))
        with pytest.raises(InvalidRequestError, match="payload"):
            writer.finish()
    assert left(bench) == []


# --- answers that are lost, servers that die --------------------------------------------------


@BOTH
def test_answer_that_is_lost_changes_nothing_whichever_it_is(bench, transaction):
    with served(bench.root, is_writable=True) as address:
        port = int(address.rpartition(":")[2])
        with (
            Relay(port) as relay,
            StagingClient.open(f"shardlog://{relay.address}", bench.name, options=PATIENT) as area,
        ):
            relay.cut_next_answer_at(0)
            parts = staged(area, transaction, range(10))
            relay.cut_next_answer_at(0)
            assert not area.is_decided(transaction)
            relay.cut_next_answer_at(0)
            assert area.claim("name", "one") == "one"
            relay.cut_next_answer_at(0)
            land(area, transaction, parts)
            relay.cut_next_answer_at(0)
            area.discard(transaction, [parts])
    assert (stored(bench), left(bench)) == (list(range(10)), [])


def test_server_that_is_killed_between_two_steps_is_followed_by_another(bench):
    staged_parts = {}
    with Relay(None) as relay:
        address = f"shardlog://{relay.address}"
        with server_process(bench.root, is_writable=True) as process:
            relay.port = process.port
            area = StagingClient.open(address, bench.name, options=PATIENT)
            for transaction in (NUMBERED, PLAIN):
                staged_parts[transaction] = staged(area, transaction, range(10))
            process.signal(signal.SIGKILL)
        for _ in range(2):
            with server_process(bench.root, is_writable=True) as process:
                relay.port = process.port
                for transaction, parts in staged_parts.items():
                    land(area, transaction, parts, wait_s=WAIT_MAX_S)
                process.signal(signal.SIGKILL)
        area.close()
    assert (stored(bench), left(bench)) == (sorted([*range(10)] * 2), [])


def test_what_a_server_has_published_and_not_finished_another_finishes(bench):
    with writing(bench) as area:
        parts = staged(area, NUMBERED, range(10))
        StagingArea.open(bench.root, bench.name).publish(NUMBERED, parts, Contents(10, 1, 2))
        land(area, NUMBERED, parts)
    assert (stored(bench), left(bench)) == (list(range(10)), [])


def test_servers_over_two_roots_are_refused_in_one_line(bench, tmp_path):
    with Stream.create(tmp_path, bench.name):
        pass
    with (
        served(bench.root, is_writable=True) as address,
        served(tmp_path, is_writable=True) as other,
        StagingClient.open(f"{address},{other.removeprefix('shardlog://')}", bench.name) as area,
        pytest.raises(InvalidRequestError, match=r"over several roots, .* over root .*, .* over"),
    ):
        area.refuse_other_roots()


def test_stream_is_made_in_none_of_two_roots(bench, tmp_path):
    with Stream.create(tmp_path, bench.name):
        pass
    with (
        served(bench.root, is_writable=True) as address,
        served(tmp_path, is_writable=True) as other,
        pytest.raises(InvalidRequestError, match="over several roots"),
    ):
        create_by_server(f"{address},{other.removeprefix('shardlog://')}", "made", StreamOptions())
    assert [list_streams(root) for root in (bench.root, tmp_path)] == [[bench.name]] * 2


def test_stream_made_anew_under_the_client_is_foreign(bench):
    with writing(bench) as area:
        parts = staged(area, NUMBERED, range(4))
        drop_stream(bench.root, bench.name)
        with Stream.create(bench.root, bench.name, StreamOptions(shards=2)):
            pass
        for call in (
            lambda: staged(area, NUMBERED, range(4)),
            lambda: land(area, NUMBERED, parts),
            lambda: area.claim("name", "one"),
        ):
            with pytest.raises(ForeignDataError, match="made anew"):
                call()
    assert stored(bench) == []


# --- other writers ----------------------------------------------------------------------------


def test_shard_that_another_writer_holds_is_waited_for_and_nobody_else_waits(bench):
    with writing(bench) as area:
        parts = staged(area, NUMBERED, range(10))
        with Stream.open(bench.root, bench.name):
            with pytest.raises(ShardLockedError, match=r"waited 0 s: .*another writer"):
                land(area, NUMBERED, parts)
            assert not area.is_decided(NUMBERED)
        land(area, NUMBERED, parts, wait_s=WAIT_MAX_S)
    assert stored(bench) == list(range(10))


def test_server_keeps_shards_open_for_a_query_and_gives_them_to_who_waits(bench):
    with writing(bench) as area:
        parts = staged(area, NUMBERED, range(10))
        area.land(StagedBatch(NUMBERED, parts, None), Waiting(0, "a query", is_kept=True))
        own = StagingArea.open(bench.root, bench.name)
        own.open_shards([0, 1], WAIT_MAX_S).close()


# --- who may write ----------------------------------------------------------------------------


def test_server_that_only_reads_says_how_it_would_write(bench):
    with served(bench.root) as address, pytest.raises(InvalidRequestError) as raised:
        StagingClient.open(address, bench.name, options=AT_ONCE)
    assert "this server only reads; start it with --write-token-file FILE" in str(raised.value)


def test_token_that_may_read_writes_nothing(bench, tmp_path):
    files = {name: tmp_path / name for name in ("read", "write")}
    for name, file in files.items():
        file.write_text(f"a-token-to-{name}-with\n")
    tokens = {"read_tokens": files["read"], "write_tokens": files["write"]}
    with served(bench.root, **tokens) as address:
        with pytest.raises(InvalidRequestError, match="the token may read, and not write"):
            StagingClient.open(
                address, bench.name, options=replace(AT_ONCE, token_file=files["read"])
            )
        options = replace(AT_ONCE, token_file=files["write"])
        with StagingClient.open(address, bench.name, options=options) as area:
            land(area, NUMBERED, staged(area, NUMBERED, range(4)))
    assert stored(bench) == list(range(4))


@pytest.mark.parametrize(
    "settings", [{"listen": "0.0.0.0:0", "is_anonymous": True}, {"read_tokens": Path("tokens")}]
)
def test_writing_without_a_token_is_for_this_machine_alone(bench, settings):
    with (
        pytest.raises(InvalidRequestError, match="--write-token-file"),
        serving(bench.root, is_writable=True, **settings),
    ):
        pass


def test_page_of_a_browser_cannot_write(bench):
    with serving(bench.root, is_writable=True) as served_:
        said = served_.refusal("claim", bench.name, name="n", owner="o")
        assert f"needs the header {PROTOCOL}" in str(said)


# --- a full disk ----------------------------------------------------------------------------------


@contextmanager
def full_disk() -> Iterator[None]:
    """Files that may not grow any more stand for a disk that is full."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_disk_that_is_full_is_told_and_staging_goes_on_once_there_is_room(bench):
    with writing(bench) as area:
        writer = area.writer(NUMBERED)
        writer.write(batch_of(range(4), payload=bytes(2**18)))
        with full_disk(), pytest.raises(UnavailableError, match="staging rows"):
            writer.finish()
        assert not list(bench.staging.rglob("*.arrow"))
        land(area, NUMBERED, writer.finish())
    assert stored(bench) == list(range(4))
