"""`GET /status`: what it tells of the root and its streams, whatever state one of them is in."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from connectors.serve.open_streams import OpenStreams
from connectors.serve.settings import Bounds
from connectors.serve.status.stream_status import READ_AT_LEAST, StreamStatuses
from storage_core import Stream, StreamOptions
from storage_core.testing import ManualClock
from tests.events.front_ends.doors import commanding
from tests.log.serve.served import Served, serving
from tests.log.workbench import Workbench, batch_of

READ = "read-token-of-tests"
NEWEST_MS = 1_700_000_000_123
NOT_OF_ALL = ("committed", "parts", "bytes", "newest")


class SlowMachine(ManualClock):
    """A clock by which a second is over whenever it is looked at."""

    @override
    def monotonic_s(self) -> float:
        self.advance(1)
        return super().monotonic_s()


def status_of(served: Served) -> dict[str, Any]:
    answer = served.get("/status")
    body = answer.read()
    assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json")
    document: dict[str, Any] = json.loads(body)
    return document


def streams_of(served: Served) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in status_of(served)["streams"]}


def make(root: Path, name: str = "orders", rows: int = 0) -> None:
    with Stream.create(root, name, StreamOptions(shards=1, unit="sequence")) as stream:
        for row in range(rows):
            stream.append(row, 1, b"x")


def test_figures_of_a_stream_are_those_of_its_log(bench: Workbench) -> None:
    bench.stream.append_batch(batch_of([*range(NEWEST_MS - 99, NEWEST_MS + 1), 5]))
    bench.commit()
    with serving(bench.root) as served:
        entry = streams_of(served)[bench.name]
        newest = datetime.fromtimestamp(NEWEST_MS / 1000, UTC)
        assert datetime.fromisoformat(entry["newest"]) == newest
        assert entry["committed"] == {str(n): end for n, end in bench.stream.committed().items()}
        assert entry["bytes"] > 0
        figures = {name: value for name, value in entry.items() if name not in NOT_OF_ALL}
        assert figures == {
            "name": bench.name,
            "kind": "log",
            "shards": bench.stream.options.shards,
            "rows": 101,
            "hot_rows": 101,
            "late": 1,
            "expired": 0,
            "lag": None,
            "lake": None,
        }
        assert entry["parts"] == {"count": 0, "rows": 0, "bytes": 0}
        bench.stream.seal()
        bench.keep([NEWEST_MS + 1])
        entry = streams_of(served)[bench.name]
        assert (entry["rows"], entry["hot_rows"], entry["parts"]["rows"]) == (102, 1, 101)
        assert entry["parts"]["count"] == len(bench.stream.parts()) > 0
        assert entry["parts"]["bytes"] > 0


def test_server_says_its_version_how_long_it_runs_and_who_has_the_events(tmp_path) -> None:
    with commanding(tmp_path) as served:
        server = status_of(served)["server"]
        assert (server["version"], server["events_owner"]) == ("1.2.3", None)
        assert server["uptime_s"] >= 0
        assert served.post("/command", b'DEFINE order FIELDS { amount: "int" }')[0] == 200
        assert served.post("/command", b'STORE order FOR c-1 PAYLOAD {"amount": 5}')[0] == 200
        assert status_of(served)["server"]["events_owner"] == "this server"
        entry = streams_of(served)["order"]
        assert (entry["kind"], entry["rows"]) == ("events", 1)


def test_stream_that_cannot_be_read_says_so_and_the_others_are_told(tmp_path: Path) -> None:
    for name in ("broken", "whole"):
        make(tmp_path, name, rows=1)
    with serving(tmp_path) as served:
        (tmp_path / "broken" / "stream.json").write_text("{")
        streams = streams_of(served)
        assert set(streams["broken"]) == {"name", "error"}
        assert "broken" in streams["broken"]["error"]
        assert (streams["whole"]["rows"], streams["whole"]["newest"]) == (1, None)
        served.result("committed", "whole")


def test_stream_that_is_made_anew_is_told_as_it_is(tmp_path: Path) -> None:
    make(tmp_path, rows=3)
    with serving(tmp_path) as served:
        assert streams_of(served)["orders"]["rows"] == 3
        shutil.rmtree(tmp_path / "orders")
        assert streams_of(served) == {}
        make(tmp_path, rows=1)
        assert streams_of(served)["orders"]["rows"] == 1


@pytest.mark.parametrize(
    ("headers", "code"), [({}, 401), ({"Authorization": f"Bearer {READ}"}, 200)]
)
def test_status_needs_a_token_that_may_read(tmp_path: Path, headers, code) -> None:
    make(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{READ}\n")
    with serving(tmp_path, read_tokens=tokens, headers=headers) as served:
        assert served.get("/status").status == code


def test_status_is_asked_for_by_get(tmp_path: Path) -> None:
    make(tmp_path)
    with serving(tmp_path) as served:
        assert served.post("/status", b"")[0] == 405


def test_of_many_streams_those_are_read_that_were_not_read_for_longest(tmp_path: Path) -> None:
    names = [f"s{number:02}" for number in range(READ_AT_LEAST + 2)]
    for name in names:
        make(tmp_path, name, rows=1)
    clock = SlowMachine()
    streams = OpenStreams(tmp_path, Bounds(), clock)
    statuses = StreamStatuses(tmp_path, streams, clock)
    first, second = statuses.all_of(names), statuses.all_of(names)
    streams.close()
    assert [entry["name"] for entry in first] == [entry["name"] for entry in second] == names
    assert first[-2:] == [{"name": name, "pending": True} for name in names[-2:]]
    assert all(entry["rows"] == 1 for entry in (*first[:-2], *second))
    read_before = [entry["name"] for entry in second if entry.get("age_s", 0) > 0]
    assert read_before == names[READ_AT_LEAST - 2 : READ_AT_LEAST]
