"""The file of options of an object store: what it may have, and that nothing of it is repeated."""

import pytest

from storage_core import InvalidRequestError
from storage_core.lake import lake_options
from storage_core.lake.options_file import LAKE_OPTIONS_VARIABLE


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "options.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_options_are_texts_however_they_are_written(file):
    options = 'AWS_REGION = "north"\nAWS_ALLOW_HTTP = true\nmax_retries = 3\ntimeout = "30s"\n'
    assert lake_options(None, file(options)) == {
        "AWS_REGION": "north",
        "AWS_ALLOW_HTTP": "true",
        "max_retries": "3",
        "timeout": "30s",
    }


def test_options_that_are_handed_over_stand_above_those_of_the_file(file):
    options = file('AWS_REGION = "north"\nAWS_ALLOW_HTTP = true')
    assert lake_options({"aws_region": "south"}, options) == {
        "aws_region": "south",
        "AWS_ALLOW_HTTP": "true",
    }


def test_file_may_be_named_by_the_environment_and_is_read_anew(file, monkeypatch):
    assert lake_options() == {}
    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, str(file('AWS_REGION = "north"')))
    assert lake_options() == {"AWS_REGION": "north"}
    file('AWS_REGION = "south"')
    assert lake_options() == {"AWS_REGION": "south"}


def test_single_options_of_the_environment_stand_between_its_file_and_one_that_is_named(
    file, monkeypatch
):
    monkeypatch.setenv("SHARDLOG_LAKE__OPTIONS__AWS_REGION", "south")
    named = file('AWS_REGION = "north"\nAWS_ALLOW_HTTP = true')
    assert lake_options()["AWS_REGION"] == "south"
    assert lake_options(None, named) == {"AWS_REGION": "north", "AWS_ALLOW_HTTP": "true"}
    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, str(named))
    assert lake_options() == {"AWS_REGION": "south", "AWS_ALLOW_HTTP": "true"}
    assert lake_options({"aws_region": "west"}, named)["aws_region"] == "west"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("AWS_SECRET_ACCESS_KEY = hush", "is no TOML"),
        ("[lake]\nAWS_SECRET_ACCESS_KEY = 'hush'", "lake is neither text"),
        ("AWS_SECRET_ACCESS_KEY = ['hush']", "AWS_SECRET_ACCESS_KEY is neither text"),
        (b"AWS_SECRET_ACCESS_KEY = 'hush\xff'", "is no TOML"),
        ("# hush\n" * 200_000, "is larger than"),
    ],
)
def test_file_of_anything_else_is_refused_and_not_repeated(file, text, complaint):
    with pytest.raises(InvalidRequestError, match=complaint) as refused:
        lake_options(None, file(text))
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_file_that_is_not_there_is_told_by_its_name(tmp_path):
    with pytest.raises(InvalidRequestError, match=r"no such file.*none\.toml"):
        lake_options(None, tmp_path / "none.toml")
