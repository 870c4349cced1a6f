"""`shardlog worker --check` of topics of JSON: is the type there, and one of a topic's values?"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.connectors.command import Ran, runner
from typed_events import EventStore, Status

Check = Callable[..., Ran]
DEFINED = (
    'DEFINE order FIELDS { amount: "int", status: ["new", "paid"], at: "timestamp | null" }',
    'DEFINE presence FIELDS { page: "string" } AS STATE TTL 30m',
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with EventStore.open(tmp_path / "root") as store:
        for command in DEFINED:
            assert store.execute(command).status == Status.OK
    return tmp_path / "root"


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], root: Path) -> Check:
    """Return what checks a worker's settings; the stream's by name."""

    def checked(topic: str = "orders", **stream: str | None) -> Ran:
        settings = {
            "root": str(root),
            "topics": topic,
            "kafka.bootstrap.servers": "127.0.0.1:1",
            **{
                f"stream.{name}": value
                for name, value in {
                    "value_format": "json",
                    "event_type": "order",
                    "key_mode": "dictionary",
                    **stream,
                }.items()
                if value is not None
            },
        }
        options = [f"--set={name}={value}" for name, value in settings.items()]
        return runner(capsys)("worker", "--check", *options)

    return checked


def test_type_of_events_passes(check: Check) -> None:
    ran = check(secondary="field:status")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ({"event_type": "ordr"}, "there is no event type ordr; did you mean order?"),
        ({"event_type": "presence"}, "event type presence is of state with TTL 30m"),
        ({"event_type": "_types"}, "stream.event_type: '_types' cannot be the name of a type"),
        ({"value_format": "raw"}, "event_type: is the type of JSON values"),
        ({"key_mode": "text"}, "stream.key_mode"),
        (
            {"primary": "field:when"},
            "type order, version 1: shardlog.events.order has no field when",
        ),
        (
            {"primary": "field:status"},
            "field status of shardlog.events.order is string; a primary",
        ),
        ({"topic": "order"}, "a stream of this name is there that was not made from a topic"),
    ],
)
def test_what_values_of_a_topic_cannot_be_is_one_line(
    check: Check, stream: dict[str, str], said: str
) -> None:
    ran = check(**stream)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_values_of_no_type_need_a_registry(check: Check) -> None:
    ran = check(event_type=None)
    assert (ran.code, ran.out) == (2, "")
    assert '"json" asks a schema registry' in ran.err
    assert 'or the type that values are events of, as stream.event_type = "order"' in ran.err
    assert ran.err.count("\n") == 1
