"""Settings by the names of Confluent's clients: what they may be, and what nobody is shown."""

import pytest

from connectors.registry import RegistryClient, RegistrySettings, printable_registry_settings
from storage_core import InvalidRequestError

URL = "http://localhost:8081"


def test_addresses_stand_without_users() -> None:
    settings = RegistrySettings.parse({"url": " https://jo:p%40ss@a:1/x/ , https://b"})
    assert settings.urls == ("https://a:1/x", "https://b")
    assert settings.user_info == "jo:p@ss"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "url: is missing"),
        ({"url": ""}, "url: takes text"),
        ({"url": "localhost:8081"}, "url: write http://host:port"),
        ({"url": "http://jo:canary@host:canary"}, "url: write http://host:port"),
        ({"url": "http://jo:canary@host/a b"}, "url: has a space"),
        ({"url": "http://jo:canary@höst"}, "url: .* not ASCII"),
        ({"url": "http://jo:canary@host/ä"}, "url: .* not ASCII"),
        ({"url": "http://jo:canary@a..b"}, "url: write http://host:port"),
        ({"url": "http://jo:canary%0A@host"}, "basic.auth.user.info: has a control character"),
        ({"url": URL, "basic.auth.user.info": "jo:canary\n"}, "has a control character"),
        ({"url": URL, "bearer.auth.token": "canary\n"}, "bearer.auth.token: .* a line break"),
        ({"url": URL, "bearer.auth.token": "canary€"}, "bearer.auth.token: .* not ASCII"),
        ({"url": URL, "ssl.ca.locations": "x"}, "did you mean ssl.ca.location"),
        ({"url": URL, "basic.auth.user.info": "canary"}, "write user:password"),
        ({"url": "http://a:canary@h", "basic.auth.user.info": "b:canary"}, "given twice"),
        ({"url": URL, "basic.auth.user.info": "b:c", "bearer.auth.token": "canary"}, "twice"),
        ({"url": URL, "ssl.key.password": "canary"}, "ssl.certificate.location: is missing"),
        ({"url": URL, "ssl.ca.location": False}, "ssl.ca.location: takes text"),
        ({"url": URL, "timeout": 0}, "timeout: takes a number from 0.001"),
        ({"url": URL, "max.retries": "often"}, "max.retries: takes a number"),
        ({"url": URL, "max.retries": True}, "max.retries: takes a number"),
        ({"url": URL, "timeout": "nan"}, "timeout: takes a number"),
    ],
)
def test_unsuitable_setting_is_named_and_no_secret_shown(settings, said) -> None:
    with pytest.raises(InvalidRequestError, match=said) as raised:
        RegistrySettings.parse(settings)
    assert "canary" not in str(raised.value)


def test_no_text_of_the_settings_shows_a_secret() -> None:
    settings = {
        "url": "http://jo:canary@h",
        "ssl.certificate.location": "c.pem",
        "ssl.key.password": "canary",
    }
    assert "canary" not in repr(RegistrySettings.parse(settings))
    printable = printable_registry_settings(
        {**settings, "bearer.auth.token": "canary", "unknown": "canary"}
    )
    assert "canary" not in str(printable)
    assert printable["url"] == "http://h"


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_file_that_is_no_certificate_is_named(tmp_path, name) -> None:
    (tmp_path / "a.pem").write_text("no certificate")
    for file in ("a.pem", "missing.pem"):
        settings = RegistrySettings.parse({"url": URL, name: str(tmp_path / file)})
        with pytest.raises(InvalidRequestError, match=f"{name}: .*{file}"):
            RegistryClient(settings)
