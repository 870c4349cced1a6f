"""What is known of schemas while the registry is silent, of many at once."""

import socket
from collections.abc import Iterator

import pytest

from connectors.ingest.values.framing import ID
from connectors.ingest.values.schema_lookup import SchemaLookup
from connectors.registry import RegistryClient, RegistrySettings
from storage_core.testing import ManualClock

PATIENT_S = 60.0
NAMES = [ID + number.to_bytes(4, "big") for number in range(1, 21)]
STORED = len(NAMES)


def in_store(registry_id: int) -> str | None:
    return '"int"' if registry_id == STORED else None


@pytest.fixture
def timeout() -> float:
    """How long the registry is waited for."""
    return 0.2


@pytest.fixture
def lookup(timeout: float) -> Iterator[SchemaLookup]:
    """Have all names asked for of a registry that takes questions and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        values = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "timeout": timeout}
        settings = RegistrySettings.parse({**values, "max.retries": 0})
        lookup = SchemaLookup(RegistryClient(settings), in_store, ManualClock())
        lookup.ask(NAMES)
        yield lookup
        lookup.close()


@pytest.mark.parametrize("timeout", [600.0])
def test_registry_that_is_waited_for_is_no_trouble_yet(lookup) -> None:
    assert lookup.trouble_of(NAMES) is None


def test_silence_of_the_registry_is_told_to_those_that_have_had_no_turn(lookup) -> None:
    lookup.await_answers(NAMES[:1], PATIENT_S)
    troubles = [lookup.trouble_of([name]) for name in NAMES]
    assert all(trouble is not None and trouble.retriable for trouble in troubles)
    assert "schema id 20: waits behind others; " in str(troubles[-1])
    assert "no answer in time" in str(troubles[-1])


def test_store_answers_for_a_schema_that_had_no_turn(lookup) -> None:
    lookup.await_answers(NAMES[:1], PATIENT_S)
    assert lookup.take_stored(NAMES) == set(NAMES[:-1])
    assert lookup.unanswered(NAMES) == set(NAMES[:-1])
    assert lookup.answers[NAMES[-1]].registry_id == STORED
