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
    environment[LAKE_OPTIONS_VARIABLE] = "mine.toml"
    settings.hand_down(environment)
    LakeSettings().hand_down(environment)
    assert environment == {LAKE_OPTIONS_VARIABLE: "mine.toml"}
