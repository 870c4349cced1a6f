"""`shardlog worker --check` against a real registry: are the fields in the topics' schemas?"""

import json
import uuid
from collections.abc import Callable

import pytest

from tests.broker.support.avro_lab import RegistryDoor, register
from tests.unit.connectors.command import Ran, runner
from tests.unit.connectors.framed import record_schema

MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
SCHEMA = record_schema(("device", "int"), ("at", MOMENT), ("note", "string"))

Check = Callable[..., Ran]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic's name of a test's own: all share one registry."""
    return f"{request.node.originalname}-{uuid.uuid4().hex}"


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], registry: str, topic: str, tmp_path) -> Check:
    """Return what checks a worker's settings; the stream's by name."""

    def checked(url: str = registry, **stream: str) -> Ran:
        settings = {
            "root": str(tmp_path),
            "topics": topic,
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "schema.registry.url": url,
            "schema.registry.max.retries": "0",
            "stream.value_format": "avro",
            **{f"stream.{name}": value for name, value in stream.items()},
        }
        options = [f"--set={name}={value}" for name, value in settings.items()]
        return runner(capsys)("worker", "--check", *options)

    return checked


def test_fields_that_are_there_pass(check: Check, registry: str, topic: str) -> None:
    register(registry, f"{topic}-value", SCHEMA)
    ran = check(primary="field:at", secondary="field:device")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["stream"]["primary"] == "field:at"


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ({"primary": "field:when"}, "has no field when; it has device, at, note"),
        ({"primary": "field:note"}, "field note of Reading is string; a primary is"),
        ({"secondary": "field:note"}, 'string or bytes with key_mode = "dictionary"'),
        ({"secondary": "field:at", "key_mode": "dictionary"}, "field at of Reading is timestamp"),
    ],
)
def test_field_that_does_not_fit_is_one_line_with_the_subject(
    check: Check, registry: str, topic: str, stream: dict[str, str], said: str
) -> None:
    register(registry, f"{topic}-value", SCHEMA)
    ran = check(**stream)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert f"subject '{topic}-value', version 1" in ran.err
    assert ran.err.count("\n") == 1


def test_subject_that_is_not_there_yet_is_told_and_no_fault(check: Check, topic: str) -> None:
    ran = check(primary="field:at")
    assert ran.code == 0
    assert f"{topic}-value" in ran.err
    assert "could not be tried" in ran.err
    assert ran.err.count("\n") == 1


def test_registry_that_does_not_answer_is_one_line(check: Check, registry: str) -> None:
    door = RegistryDoor(registry)
    door.shut()
    ran = check(door.url, primary="field:at")
    assert ran.code == 3
    assert "schema registry" in ran.err
    assert ran.err.count("\n") == 1


ORDER = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    "required": ["amount", "at"],
}
NESTED = {"type": "object", "properties": {"lines": {"type": "array"}}}


def test_fields_of_a_json_schema_that_are_there_pass(
    check: Check, registry: str, topic: str
) -> None:
    register(registry, f"{topic}-value", json.dumps(ORDER), "JSON")
    ran = check(value_format="json", primary="field:at", secondary="field:amount")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (ORDER, "has no field when; it has amount, at"),
        (NESTED, 'is of no event type: property "lines" is of type array; fields are flat'),
    ],
)
def test_json_schema_that_values_are_not_read_by_is_one_line_with_the_subject(
    check: Check, registry: str, topic: str, schema: object, said: str
) -> None:
    register(registry, f"{topic}-value", json.dumps(schema), "JSON")
    ran = check(value_format="json", primary="field:when")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert f"subject '{topic}-value', version 1" in ran.err
    assert ran.err.count("\n") == 1
