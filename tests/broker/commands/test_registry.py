"""The registry client against a real registry."""

import pytest

from connectors.registry import (
    RegistryClient,
    RegistrySettings,
    SchemaNotFoundError,
)


@pytest.fixture
def client(registry: str) -> RegistryClient:
    return RegistryClient(RegistrySettings.parse({"url": registry}))


def test_missing_id_and_missing_subject_are_told(client) -> None:
    with pytest.raises(SchemaNotFoundError, match="schema id 999999: not there"):
        client.schema_by_id(999_999)
    with pytest.raises(SchemaNotFoundError, match="subject nobodys, version latest: not there"):
        client.latest("nobodys")
    assert client.registered("nobodys", '"int"') is None
    assert client.incompatibilities("nobodys", '"int"') == []
