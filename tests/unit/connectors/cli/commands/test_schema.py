"""`shardlog schema` where no registry is needed, and what it says when one is not well."""

import json
import shutil

import pytest

from tests.tidy.tree import ROOT
from tests.unit.connectors.registry.scripted import scripted

SAMPLES = ROOT / "schemas/avro/devices"


@pytest.fixture
def files(tmp_path):
    return shutil.copytree(SAMPLES, tmp_path / "devices")


def add_version(files, *fields) -> None:
    schema = json.loads((files / "telemetry.v2.avsc").read_text())
    schema["fields"] = [*schema["fields"], *fields]
    (files / "telemetry.v4.avsc").write_text(json.dumps(schema))


def test_files_are_held_against_each_other_without_a_registry(shardlog, files) -> None:
    ran = shardlog("schema", "check", files, "--offline", "--json")
    rows = json.loads(ran.out)
    assert (ran.code, len(rows), {row["why"] for row in rows}) == (0, 5, {None})
    assert [row["subject"] for row in rows].count("telemetry-value") == 3


def test_version_that_does_not_read_its_elders_ends_with_code_8(shardlog, files) -> None:
    add_version(files, {"name": "must", "type": "int"})
    ran = shardlog("schema", "check", files, "--offline")
    assert ran.code == 8
    assert "telemetry.v4.avsc: subject telemetry-value: does not read what telemetry.v" in ran.err
    assert ran.err.count("\n") == 1


def test_subjects_are_named_as_told(shardlog, files) -> None:
    def subjects(*options: str) -> set[str]:
        ran = shardlog("schema", "check", files / "alarm.v1.avsc", "--offline", "--json", *options)
        return {row["subject"] for row in json.loads(ran.out)}

    assert subjects() == {"alarm-value"}
    assert subjects("--naming", "record") == {"devices.Alarm"}
    assert subjects("--subject", "alarms-value") == {"alarms-value"}


def test_one_subject_for_several_schemas_is_refused(shardlog, files) -> None:
    ran = shardlog("schema", "check", files, "--offline", "--subject", "one")
    assert ran.code == 2
    assert "--subject one: the files have 2 schemas" in ran.err


def test_registry_that_no_one_names_is_asked_for(shardlog, monkeypatch) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    ran = shardlog("schema", "list")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--registry URL" in ran.err


def test_warning_about_a_hundred_subjects_names_a_few(shardlog) -> None:
    names = [f"subject-{at:03d}" for at in range(100)]
    with scripted() as script:
        script.answer("/subjects", names)
        script.answer("/config", {"compatibilityLevel": "BACKWARD"})
        latest = {"id": 1, "version": 1, "schema": '"int"', "subject": "any"}
        for name in names:
            script.answer(f"/subjects/{name}/versions", [1])
            script.answer(f"/subjects/{name}/versions/latest", latest)
        ran = shardlog("schema", "list", "--registry", script.url)
    assert (ran.code, len(ran.lines), ran.err.count("\n")) == (0, 101, 1)
    assert "subject-004 (BACKWARD) and 95 more; rows of every version" in ran.err
    assert "subject-005" not in ran.err


def test_subject_of_another_kind_hides_no_other_from_the_list(shardlog) -> None:
    with scripted() as script:
        script.answer("/subjects", ["meters-value", "visits-value"])
        script.answer("/config", {"compatibilityLevel": "FULL_TRANSITIVE"})
        for subject, kind in (("meters-value", "AVRO"), ("visits-value", "JSON")):
            latest = {"id": 1, "version": 1, "schema": '"int"', "subject": subject}
            script.answer(f"/subjects/{subject}/versions", [1])
            script.answer(f"/subjects/{subject}/versions/latest", {**latest, "schemaType": kind})
        ran = shardlog("schema", "list", "--registry", script.url)
    assert (ran.code, len(ran.lines), ran.err.count("\n")) == (0, 2, 1)
    assert "visits-value, version latest: is JSON, not Avro" in ran.err


@pytest.mark.parametrize("text", ["", "x = [", "[schema]\nregistry = 1"])
def test_configuration_without_a_registry_is_named(shardlog, tmp_path, text) -> None:
    config = tmp_path / "worker.toml"
    config.write_text(text)
    ran = shardlog("schema", "list", "--config", config)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "worker.toml" in ran.err
