"""Schemas as options name them: by text, by file, as a version of a registry's subject."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage_core import InvalidRequestError, UnavailableError
from storage_core.avro import AvroSchema
from streaming_jobs.common.option_values import OptionValues
from streaming_jobs.common.schemas import REGISTRY_OPTIONS, RegistryAccess, _version, schema_named
from tests.unit.connectors.registry.scripted import scripted

TEXT = json.dumps(
    {"type": "record", "name": "a.Point", "fields": [{"name": "x", "type": "double"}]}
)
PLACED = json.dumps(
    {"type": "record", "name": "a.Placed", "fields": [{"name": "at", "type": "a.Point"}]}
)
WHOLE = AvroSchema.parse(TEXT)


def access(**options: str) -> RegistryAccess:
    return RegistryAccess.of(OptionValues({"path": "/", **options}, ("path", *REGISTRY_OPTIONS)))


def refusal(text: str, registry: RegistryAccess | None = None) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        schema_named(text, "readerSchema", registry, environment={})
    return refused.value.message


@pytest.mark.parametrize("text", [TEXT, f"  {TEXT}\n"])
def test_text_is_the_schema_itself(text: str) -> None:
    schema, registry_id = schema_named(text, "readerSchema")
    assert (schema.identity, registry_id) == (WHOLE.identity, None)


def test_schema_that_is_no_record_is_named_in_quotes() -> None:
    assert schema_named('"long"', "readerSchema").schema.full_name == "long"
    assert schema_named('["null", "int"]', "readerSchema").schema.full_name == "union"


@pytest.mark.parametrize("name", ["point.avsc", "point.v1.avsc", "a point.avsc"])
def test_file_holds_the_schema(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    uri = (tmp_path / name).as_uri()
    for text in (f"{tmp_path / name}", uri, uri.replace("///", "/")):
        assert schema_named(text, "readerSchema").schema.identity == WHOLE.identity


def test_file_finds_what_it_refers_to_beside_it(tmp_path: Path) -> None:
    (tmp_path / "point.v1.avsc").write_text(TEXT)
    (tmp_path / "placed.v1.avsc").write_text(PLACED)
    schema = schema_named(str(tmp_path / "placed.v1.avsc"), "readerSchema").schema
    assert schema.identity == AvroSchema.parse(PLACED, [TEXT]).identity
    (tmp_path / "point.v1.avsc").unlink()
    assert "refers to a.Point" in refusal(str(tmp_path / "placed.v1.avsc"))


def answer(version: int) -> dict[str, Any]:
    return {"subject": "point-value", "version": version, "id": 40 + version, "schema": TEXT}


@pytest.mark.parametrize(
    "text", ["point-value --version 3", " point-value  --version=3 ", "point-value\t--version 3"]
)
def test_subject_is_asked_for_a_fixed_version(text: str) -> None:
    with scripted() as registry:
        registry.answer("/subjects/point-value/versions/3", answer(3))
        named = schema_named(text, "readerSchema", access(schemaRegistryUrl=registry.url))
    assert (named.schema.identity, named.registry_id) == (WHOLE.identity, 43)


def test_version_is_asked_for_once_a_process() -> None:
    with scripted() as registry:
        registry.answer("/subjects/point-value/versions/3", answer(3))
        for _ in range(3):
            schema_named("point-value --version 3", "o", access(schemaRegistryUrl=registry.url))
        assert len(registry.requests) == 1


def test_version_that_was_told_is_known_in_the_application_when_the_registry_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "blockmgr-1").mkdir()
    config = tmp_path / "registry.toml"
    spark = {"SPARK_LOCAL_DIRS": f"{tmp_path / 'blockmgr-1'},/elsewhere"}
    with scripted() as registry:
        config.write_text(f'[schema.registry]\nurl = "{registry.url}"\n"max.retries" = 0\n')
        registry_access = access(schemaRegistryConfig=str(config))
        registry.answer("/subjects/point-value/versions/3", answer(3))
        first = schema_named("point-value --version 3", "o", registry_access, spark)
    another_process()
    second = schema_named("point-value --version 3", "o", registry_access, spark)
    assert (second.schema.text, second.registry_id) == (first.schema.text, 43)
    assert "using the schema that it returned before" in caplog.text
    another_process()
    for subject, environment in (("point-value", {}), ("other-value", spark)):
        with pytest.raises(UnavailableError):
            schema_named(f"{subject} --version 3", "o", registry_access, environment)


def another_process() -> None:
    """Let nothing be known that a process keeps for itself."""
    _version.cache_clear()


def test_registry_is_found_by_environment_and_by_file(tmp_path: Path) -> None:
    config = tmp_path / "shardlog.toml"
    with scripted() as registry:
        registry.answer("/subjects/point-value/versions/1", answer(1))
        config.write_text(
            f'[schema.registry]\nurl = "{registry.url}"\n"bearer.auth.token" = "secret"\n'
        )
        by_file = access(schemaRegistryConfig=str(config))
        elsewhere = {"SCHEMA_REGISTRY_URL": registry.url}
        assert schema_named("point-value --version 1", "o", by_file, {}).registry_id == 41
        assert schema_named("point-value --version 1", "o", None, elsewhere).registry_id == 41
        assert registry.authorizations == ["Bearer secret", None]


def test_option_counts_more_than_environment_and_file(tmp_path: Path) -> None:
    config = tmp_path / "shardlog.toml"
    config.write_text('[schema.registry]\nurl = "http://127.0.0.1:9"\n')
    with scripted() as registry:
        registry.answer("/subjects/point-value/versions/1", answer(1))
        registry_access = access(schemaRegistryConfig=str(config), schemaRegistryUrl=registry.url)
        elsewhere = {"SCHEMA_REGISTRY_URL": "http://127.0.0.1:9"}
        assert (
            schema_named("point-value --version 1", "o", registry_access, elsewhere).registry_id
            == 41
        )


@pytest.mark.parametrize("url", ["http://user:pw@host:1", "http://a:1, http://user:pw@b:1"])
def test_credentials_in_the_address_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        access(schemaRegistryUrl=url)
    assert "schemaRegistryConfig" in refused.value.message
    assert "pw" not in refused.value.message.replace("password", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not inline JSON"),
        ("{", "a schema must be JSON"),
        ('{"type": "recrd"}', "recrd"),
        ("point-value", "a subject needs a fixed version, as point-value --version 1"),
        ("latest", "is not inline JSON"),
        ("point-value --version 0", "is not inline JSON"),
        ("point-value --version newest", "is not inline JSON"),
        ("hdfs://far/point.avsc", "'hdfs://far/point.avsc' is not a file of this machine"),
        ("file://far/point.avsc", "is not a file of this machine"),
        ("file:point.avsc", "is not a file of this machine"),
        ("~nobody-of-this-name/point.avsc", "is not a file: there is no such home"),
        ("/nowhere/point.avsc", "/nowhere/point.avsc cannot be read: No such file"),
        ("point-value --version 1", "no schema registry is named: give option schemaRegistryUrl"),
    ],
)
def test_what_names_no_schema_is_refused_with_what_does(text: str, said: str) -> None:
    message = refusal(text)
    assert message.startswith("option readerSchema: ")
    assert said in message


def test_version_that_a_registry_does_not_have_is_told() -> None:
    with scripted() as registry:
        message = refusal("point-value --version 9", access(schemaRegistryUrl=registry.url))
    assert "point-value" in message
