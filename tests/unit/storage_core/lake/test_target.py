"""Where a lake may be: what names it, and that no value of an option is ever shown."""

from pathlib import Path

import pytest

from storage_core import InvalidRequestError
from storage_core.lake.target import lake_target


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/srv/lake/orders", "file:///srv/lake/orders"),
        ("/srv//lake/./orders/", "file:///srv/lake/orders"),
        ("/srv/my lake/ü", "file:///srv/my%20lake/%C3%BC"),
        ("file:///srv/my%20lake", "file:///srv/my%20lake"),
        ("file:///srv/my lake", "file:///srv/my%20lake"),
        ("file://localhost/srv/lake", "file:///srv/lake"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3://bucket/a", "s3://bucket/a"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        (
            "abfss://container@account.dfs.core.windows.net/a",
            "abfss://container@account.dfs.core.windows.net/a",
        ),
    ],
)
def test_place_has_one_uri(uri, expected):
    target = lake_target(uri)
    assert target.uri == expected
    assert lake_target(target.uri) == target


@pytest.mark.parametrize(
    "uri",
    [
        *("", " ", "lake", "./lake", "~/lake", "/", "file:///", "file://host/lake", "/a/../b"),
        *("file:lake", "s3:/bucket/a", "s3://", "s3:///a", "s3://bucket", "s3://bucket/"),
        *("s3://bucket/a/../b", "s3://bucket/./b", "s3://bucket/a?x=1", "s3://bucket/a#x"),
        *("/srv/50%", "/srv/a#b", "/srv/a?", "file:///srv/a%23b", "s3://bucket/a%20b"),
        *("ftp://host/a", "hdfs://host/a", "http://host/a", "s3://bucket/a\nb"),
    ],
)
def test_what_names_no_place_is_refused_in_one_line(uri):
    with pytest.raises(InvalidRequestError) as error:
        lake_target(uri)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "uri", ["s3://user:secret@bucket/a", "gs://user:secret@bucket/a", "x://user:secret@host/a"]
)
def test_password_in_a_uri_is_refused_and_not_shown(uri):
    with pytest.raises(InvalidRequestError) as error:
        lake_target(uri)
    assert "secret" not in str(error.value)


def test_signature_in_a_uri_is_not_shown():
    with pytest.raises(InvalidRequestError) as error:
        lake_target("s3://bucket/a?X-Amz-Signature=secret")
    assert "secret" not in str(error.value)


def test_values_of_options_are_not_shown():
    target = lake_target("s3://bucket/a", {"AWS_SECRET_ACCESS_KEY": "secret"})
    assert "secret" not in f"{target} {target!r}"
    assert "AWS_SECRET_ACCESS_KEY" in repr(target)
    assert target.options == {"AWS_SECRET_ACCESS_KEY": "secret"}


def test_option_that_is_there_in_two_spellings_is_refused():
    with pytest.raises(InvalidRequestError, match="twice") as error:
        lake_target("s3://bucket/a", {"AWS_REGION": "secret-1", "aws_region": "secret-2"})
    assert "secret" not in str(error.value)


def test_option_that_is_no_text_is_refused():
    options: dict = {"timeout": 5}
    with pytest.raises(InvalidRequestError, match="'timeout' of the lake is no text"):
        lake_target("s3://bucket/a", options)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "aws_endpoint", "azure_storage_endpoint"])
@pytest.mark.parametrize("value", ["localhost:9000", "nonsense", "", "http://", "ftp://host"])
def test_endpoint_that_is_no_url_is_refused(name, value):
    with pytest.raises(InvalidRequestError, match=rf"'{name}' of the lake is no URL"):
        lake_target("s3://bucket/a", {name: value})


def test_directory_is_that_of_a_file_uri_alone():
    assert lake_target("file:///srv/my%20lake").directory == Path("/srv/my lake")
    assert lake_target("s3://bucket/a").directory is None
