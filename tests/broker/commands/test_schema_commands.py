"""`shardlog schema` against a real registry: the sample schemas from files to ids and back."""

import json
import shutil

import pytest

from connectors.registry import RegistryClient, RegistrySettings
from storage_core.avro import AvroSchema
from tests.tidy.tree import ROOT
from tests.unit.connectors.command import Shardlog, runner

SAMPLES = ROOT / "schemas/avro/devices"


@pytest.fixture
def shardlog(capsys) -> Shardlog:
    return runner(capsys)


@pytest.fixture
def space(request) -> str:
    """A namespace of a test's own: all share one registry."""
    return f"devices.{request.node.originalname}"


@pytest.fixture
def files(tmp_path, space):
    """The sample schemas in that namespace, where a test may add to them."""
    folder = shutil.copytree(SAMPLES, tmp_path / "devices")
    for file in folder.iterdir():
        text = file.read_text().replace('"devices"', f'"{space}"')
        file.write_text(text.replace("devices.Place", f"{space}.Place"))
    return folder


def changed(files, old: str, new: str, **fields) -> None:
    schema = json.loads((files / old).read_text())
    (files / new).write_text(json.dumps(schema | fields))


def test_directory_is_registered_once_with_what_it_refers_to(
    shardlog, registry, files, space
) -> None:
    options = ("--registry", registry, "--naming", "record", "--json")
    before = shardlog("schema", "check", files, *options)
    assert before.code == 0
    assert {row["status"] for row in json.loads(before.out)} == {"compatible"}
    first = shardlog("schema", "register", files, *options)
    again = shardlog("schema", "register", files, *options)
    assert (first.code, first.out) == (0, again.out)
    after = shardlog("schema", "check", files, *options)
    assert after.out == first.out
    client = RegistryClient(RegistrySettings.parse({"url": registry}))
    assert client.versions(f"{space}.Telemetry") == [1, 2, 3]
    latest = client.latest(f"{space}.Telemetry")
    alone = AvroSchema.parse(latest.text, latest.references)
    assert [each.name for each in alone.fields][-1] == "place"


def test_registered_schema_is_listed_and_shown(shardlog, registry, files, space) -> None:
    options = ("--registry", registry)
    assert shardlog("schema", "register", files, *options, "--naming", "record").code == 0
    listed = json.loads(shardlog("schema", "list", *options, "--json").out)
    (row,) = [row for row in listed if row["subject"] == f"{space}.Telemetry"]
    assert (row["versions"], row["latest"]) == (3, 3)
    by_subject = shardlog("schema", "show", f"{space}.Telemetry", *options, "--json")
    by_id = shardlog("schema", "show", "--id", row["id"], *options, "--json")
    schemas = [json.loads(ran.out) for ran in (by_subject, by_id)]
    assert schemas[0]["schema"] == schemas[1]["schema"]
    assert schemas[0]["references"] == f"{space}.Place ({space}.Place, version 1)"
    assert (
        f"name: {space}.Telemetry" in shardlog("schema", "show", "--id", row["id"], *options).lines
    )


def test_level_that_looks_at_the_last_version_only_is_warned_about(
    shardlog, registry, files
) -> None:
    client = RegistryClient(RegistrySettings.parse({"url": registry}))
    options = ("--registry", registry, "--subject", "levels")
    client.set_compatibility("levels", "BACKWARD")
    ran = shardlog("schema", "check", files / "alarm.v1.avsc", *options)
    assert ran.code == 0
    assert "not held against all their versions: levels (BACKWARD)" in ran.err
    client.set_compatibility("levels", "FULL_TRANSITIVE")
    assert shardlog("schema", "check", files / "alarm.v1.avsc", *options).err == ""


def test_schema_that_the_registry_would_refuse_ends_with_code_8(shardlog, registry, files) -> None:
    client = RegistryClient(RegistrySettings.parse({"url": registry}))
    options = ("--registry", registry, "--subject", "refusing")
    only = files / "alarm.v1.avsc"
    assert shardlog("schema", "register", only, *options).code == 0
    client.set_compatibility("refusing", "FULL_TRANSITIVE")
    schema = json.loads(only.read_text())
    # Ours reads it, for nothing older is among the files.
    changed(files, only.name, "alarm.v2.avsc", fields=[*schema["fields"][1:], ADDED])
    for command in ("check", "register"):
        ran = shardlog("schema", command, files / "alarm.v2.avsc", *options)
        assert ran.code == 8
        assert "alarm.v2.avsc: subject refusing: " in ran.err
    assert client.versions("refusing") == [1]


ADDED = {"name": "must", "type": "int"}
