"""The section `[lake]`, and the place of a table: what is taken, what is refused by one line."""

import os

import pytest

from connectors.settings.lake_settings import LakeSettings
from storage_core.lake import LAKE_OPTIONS_VARIABLE, lake_options
from tests.unit.connectors.settings.conftest import WHOLE
from tests.unit.connectors.settings.test_options import refusal


def test_options_of_the_lake_come_from_file_variable_and_command_line(load, tmp_path):
    secrets = tmp_path / "secrets.toml"
    secrets.write_text('AWS_SECRET_ACCESS_KEY = "hush"\nAWS_REGION = "by file"\n')
    text = (
        WHOLE + f'[lake]\ncredentials_file = "{secrets}"\n[lake.options]\nAWS_ALLOW_HTTP = true\n'
    )
    variables = {
        "SHARDLOG_LAKE__OPTIONS__AWS_REGION": "north",
        "SHARDLOG_LAKE__REVOKE_WAIT_SECONDS": "3",
    }
    lake = load(text, ["lake.options.AWS_ACCESS_KEY_ID=0123"], variables).lake
    assert lake.revoke_wait_seconds == 3
    assert lake.storage_options() == {
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "0123",
        "aws_region": "north",
        "AWS_SECRET_ACCESS_KEY": "hush",
    }


def test_options_of_the_lake_are_printed_without_what_is_secret(load):
    text = WHOLE + '[lake.options]\nAWS_SECRET_ACCESS_KEY = "hush"\nAWS_REGION = "north"\n'
    printable = load(text).printable()["lake"]
    assert printable["options"] == {"AWS_REGION": "north", "AWS_SECRET_ACCESS_KEY": "***"}
    assert "hush" not in str(load(text).printable())


def test_each_topic_has_a_table_of_its_own(load):
    of_one = ["stream.lake=s3://bucket/orders"]
    assert load(overrides=of_one).stream.lake_of("orders") == "s3://bucket/orders"
    of_each = ["topics=orders,returns", "stream.lake=s3://bucket/{topic}"]
    assert load(overrides=of_each).stream.lake_of("returns") == "s3://bucket/returns"
    said = refusal(load, overrides=["topics=orders,returns", *of_one])
    assert "each topic has a table of its own; write {topic}" in said
    pattern = ["topics=[]", 'topic_pattern="^orders"', *of_one]
    assert "each topic has a table of its own" in refusal(load, overrides=pattern)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("stream.lake=bucket/{topic}", "lake: 'bucket/t' is no place for a lake"),
        ("stream.lake=s3://bucket/{stream}", "{topic} alone stands for something"),
        ("stream.lake=s3://bucket/{topic}/{", "lake: 's3://bucket/{topic}/{' has braces"),
        ("stream.lake_lag_seconds=0", "stream.lake_lag_seconds"),
        ("stream.lake_history_hours=0.5", "stream.lake_history_hours"),
        ("lake.options=s3", "--set lake.options: takes a table"),
        ("lake.credentials_file=", "lake.credentials_file: is empty"),
        ("lake.revoke_wait_seconds=-1", "lake.revoke_wait_seconds"),
        ("lake.uri=s3://bucket", "lake.uri: unknown key"),
    ],
)
def test_settings_of_the_lake_that_do_not_fit_are_refused(load, override, complaint):
    assert complaint in refusal(load, overrides=[override])


def test_file_named_by_the_environment_has_options_of_the_lake(load, tmp_path, monkeypatch):
    (tmp_path / "options.toml").write_text('AWS_REGION = "north"')
    monkeypatch.setenv("SHARDLOG_LAKE_OPTIONS_FILE", str(tmp_path / "options.toml"))
    options = load(environment=dict(os.environ))
    assert options.lake.storage_options() == {"AWS_REGION": "north"}


def test_what_a_worker_reads_and_starts_reaches_the_store_by_its_options(tmp_path, monkeypatch):
    file = tmp_path / "options.toml"
    file.write_text('AWS_REGION = "north"\nAWS_ALLOW_HTTP = true')
    settings = LakeSettings(options={"AWS_REGION": "south"}, credentials_file=file)
    environment: dict[str, str] = {}
    settings.hand_down(environment)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert lake_options() == settings.storage_options()
    assert lake_options() == {"AWS_REGION": "south", "AWS_ALLOW_HTTP": "true"}


def test_processes_of_a_worker_are_told_its_file_of_options(tmp_path):
    settings = LakeSettings(credentials_file=tmp_path / "options.toml")
    environment: dict[str, str] = {}
    settings.hand_down(environment)
    assert environment == {LAKE_OPTIONS_VARIABLE: str(tmp_path / "options.toml")}
    LakeSettings().hand_down(environment)
    assert environment == {LAKE_OPTIONS_VARIABLE: str(tmp_path / "options.toml")}


@pytest.mark.parametrize("named", ["other.toml", "none.toml"])
def test_file_of_a_worker_stands_in_the_place_of_the_one_that_its_environment_names(
    tmp_path, monkeypatch, named
):
    (tmp_path / "own.toml").write_text('AWS_REGION = "own"')
    (tmp_path / "other.toml").write_text('AWS_REGION = "other"\nAWS_ALLOW_HTTP = true')
    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, str(tmp_path / named))
    settings = LakeSettings(credentials_file=tmp_path / "own.toml")
    assert settings.storage_options() == {"AWS_REGION": "own"}
    environment = dict(os.environ)
    settings.hand_down(environment)
    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, environment[LAKE_OPTIONS_VARIABLE])
    assert lake_options() == {"AWS_REGION": "own"}


SPELLINGS = ("AWS_REGION", "aws_region")


@pytest.mark.parametrize("variable", SPELLINGS)
@pytest.mark.parametrize("line", SPELLINGS)
def test_option_of_the_command_line_stands_above_all_others_however_they_are_spelled(
    load, monkeypatch, variable, line
):
    environment = {f"SHARDLOG_LAKE__OPTIONS__{variable}": "variable"}
    text = WHOLE + '[lake.options]\nAWS_REGION = "file"\n'
    lake = load(text, [f"lake.options.{line}=line"], environment).lake
    lake.hand_down(environment)
    monkeypatch.setattr(os, "environ", environment)
    assert [*lake.storage_options().values()] == [*lake_options().values()] == ["line"]
