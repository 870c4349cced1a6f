"""Goal: a query ends with whoever asked it, also before its first rows; its answer is streamed.

Method: 300,000 events, and a query that takes many seconds to find that none of them fits.
"""

import os
import signal
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

from bench.child import memory_peak
from storage_core.sql.pool.stream_pool import StreamPool
from tests.events.front_ends.doors import commanding, posted
from tests.events.stored import StoredEvents
from tests.log.serve.served import ANSWER_MAX_S, Served
from tests.log.serve.serving_process import server_process
from tests.waiting import await_that
from typed_events.event_store import EventStore
from typed_events.language.parse import parse
from typed_events.query.queries import Queries

EVENTS: Final = 300_000
_AT_ONCE: Final = 50_000
_TERMS: Final = " OR ".join(f'note LIKE "%{number}_x%"' for number in range(400))
SLOW: Final = f"QUERY order WHERE {_TERMS}"
# Rows in DuckDB and all that a first query loads; the rows as JSON, 55 MB, are not among it.
SORTED_MAX: Final = 250 * 2**20
GROWTH_MAX: Final = 40 * 2**20


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with many events."""
    folder: Path = tmp_path_factory.mktemp("events")
    with StoredEvents(folder) as stored:
        stored.define("order", {"number": "int", "note": "string"})
        for first in range(0, EVENTS, _AT_ONCE):
            rows = [
                {"number": number, "note": f"note {number} of a long line of notes"}
                for number in range(first, first + _AT_ONCE)
            ]
            stored.store("order", ["ann"] * _AT_ONCE, rows)
        stored.streams["order"].seal()
    return folder


def ended(served: Served, status: str) -> float:
    """Return how many queries were answered with a status."""
    labels = {'verb="query"', f'status="{status}"'}
    return sum(
        float(line.split()[-1])
        for line in served.get("/metrics").read().decode().splitlines()
        if line.startswith("shardlog_server_commands_total{")
        and labels <= {*line.partition("{")[2].partition("}")[0].split(",")}
    )


def test_client_that_goes_away_ends_its_query(root) -> None:
    with commanding(root) as served:
        connection = HTTPConnection(served.server.address, timeout=ANSWER_MAX_S)
        connection.request("POST", "/command", SLOW.encode())
        await_that(lambda: served.metric("shardlog_server_answers") == 1, "a query that runs")
        connection.close()
        await_that(lambda: served.metric("shardlog_server_answers") == 0, "its end")
        assert (ended(served, "Busy"), ended(served, "OK")) == (1, 0)
        assert posted(served, "QUERY order LIMIT 1")[0] == 200


def test_query_ends_when_the_time_of_an_answer_is_over(root) -> None:
    with commanding(root, answer_s=0.5, send_s=ANSWER_MAX_S) as served:
        code, text, headers = posted(served, SLOW)
        assert (code, headers["Retry-After"]) == (503, "1")
        assert b"the answer took more than 0.5 s" in text


def test_ctrl_c_ends_a_query(root) -> None:
    with EventStore.open(root) as store:
        query = parse(SLOW)
        with pytest.raises(KeyboardInterrupt):
            store.execute_command(query, poll=lambda: os.kill(os.getpid(), signal.SIGINT))
        assert store.execute("QUERY order LIMIT 1").message == "OK"


def test_what_ends_a_query_gives_its_place_to_the_next(root) -> None:
    def end() -> None:
        raise TimeoutError

    with Queries(root) as queries:
        query: Any = parse(SLOW)
        for _ in range(5):
            with pytest.raises(TimeoutError):
                queries.query(query, end)
        assert queries.query(parse("QUERY order LIMIT 1")).message == "OK"  # type: ignore[arg-type]


def test_query_that_nobody_wants_once_its_rows_are_there_ends_by_its_reason(tmp_path) -> None:
    with StoredEvents(tmp_path) as stored:
        stored.define("order", {"number": "int"})
        stored.store("order", ["ann"] * 5_000, [{"number": number} for number in range(5_000)])

    def build(_: object, texts: Mapping[str, str]) -> str:
        # Rows, which come after some tenths of a second.
        slow = "(SELECT max(hash(i)) FROM range(100_000_000) AS counted(i)) IS NOT NULL"
        return f"SELECT * FROM ({texts['order']}) WHERE {slow}"

    with StreamPool(tmp_path) as pool:
        pool.query({"order": None}, lambda _, texts: texts["order"]).close()
        (engine,) = pool._idle

        def end() -> None:
            # Behind the search its thread is free.
            engine._calls._thread.submit(int).result()
            raise TimeoutError

        with pytest.raises(TimeoutError):
            pool.query({"order": None}, build, end)
        assert not pool.query({"order": None}, lambda _, texts: texts["order"]).is_empty


def answered_lines(address: str, accept: str) -> int:
    """Take an answer of all events as it comes; return how many lines it had."""
    connection = HTTPConnection(address, timeout=ANSWER_MAX_S)
    try:
        connection.request("POST", "/command", b"QUERY order", {"Accept": accept})
        answer = connection.getresponse()
        assert answer.status == 200
        return sum(piece.count(b"\n") for piece in iter(lambda: answer.read(2**16), b""))
    finally:
        connection.close()


def test_memory_of_a_server_does_not_grow_with_its_answer(root) -> None:
    with server_process(root) as server:
        process = str(server.process.pid)
        at_start = memory_peak(process)
        # What DuckDB takes to put the rows in order is bounded by itself.
        answered_lines(server.address, "application/vnd.apache.arrow.stream")
        before = memory_peak(process)
        assert before - at_start <= SORTED_MAX
        assert answered_lines(server.address, "application/x-ndjson") == EVENTS
        assert memory_peak(process) - before <= GROWTH_MAX
