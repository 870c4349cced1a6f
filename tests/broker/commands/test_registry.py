"""The registry client against a real registry."""

import json

import pytest

from connectors.registry import (
    IncompatibleSchemaError,
    Reference,
    RegistryClient,
    RegistrySettings,
    SchemaNotFoundError,
)
from storage_core.avro import AvroSchema

PLACE = {
    "type": "record",
    "name": "Place",
    "namespace": "lab",
    "fields": [{"name": "site", "type": "string"}],
}


def record(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "record", "name": "Report", "namespace": "lab", "fields": fields})


@pytest.fixture
def client(registry: str) -> RegistryClient:
    return RegistryClient(RegistrySettings.parse({"url": registry}))


def test_what_is_registered_is_found_by_id_with_what_it_refers_to(client) -> None:
    client.register("lab.Place", json.dumps(PLACE))
    place = client.latest("lab.Place")
    text = record({"name": "at", "type": "lab.Place"})
    reference = Reference("lab.Place", "lab.Place", place.version or 0)
    found_id = client.register("lab-reports", text, [reference])
    schema = client.schema_by_id(found_id)
    assert schema.referred == (reference,)
    assert AvroSchema.parse(schema.text, schema.references).full_name == "lab.Report"
    version = client.registered("lab-reports", text, [reference])
    assert version is not None
    assert (version.id, version.subject, version.version) == (found_id, "lab-reports", 1)


def test_missing_id_and_missing_subject_are_told(client) -> None:
    with pytest.raises(SchemaNotFoundError, match="schema id 999999: not there"):
        client.schema_by_id(999_999)
    with pytest.raises(SchemaNotFoundError, match="subject nobodys, version latest: not there"):
        client.latest("nobodys")
    assert client.registered("nobodys", '"int"') is None
    assert client.incompatibilities("nobodys", '"int"') == []


def test_incompatible_schema_is_refused_and_why_is_told(client) -> None:
    client.register("strict", record({"name": "a", "type": "int"}))
    worse = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    client.set_compatibility("strict", "FULL_TRANSITIVE")
    assert client.compatibility("strict").is_transitive
    assert client.incompatibilities("strict", worse)
    with pytest.raises(IncompatibleSchemaError, match="register with subject strict"):
        client.register("strict", worse)
    assert client.versions("strict") == [1]
    assert "strict" in client.subjects()
