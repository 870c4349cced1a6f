"""What the client keeps, asks again, and says when the answer is no."""

import socket
from collections.abc import Iterator
from traceback import format_exception

import pytest

from connectors.registry import (
    IncompatibleSchemaError,
    RegisteredSchema,
    RegistryClient,
    RegistryRefusedError,
    RegistrySettings,
    RegistryUnavailableError,
    SchemaNotFoundError,
)
from storage_core import SystemClock
from storage_core.testing import ManualClock
from tests.unit.connectors.registry.scripted import Scripted, scripted
from tests.unit.connectors.silent import dripping_peer, silent_peer

INT = '"int"'


@pytest.fixture
def script() -> Iterator[Scripted]:
    with scripted() as script:
        yield script


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def client(script: Scripted, clock: ManualClock, **settings) -> RegistryClient:
    return RegistryClient(RegistrySettings.parse({"url": script.url, **settings}), clock)


def test_schema_of_an_id_is_asked_for_once(script, clock) -> None:
    script.answer("/schemas/ids/7", {"schema": INT})
    registry = client(script, clock)
    assert (
        registry.schema_by_id(7) == registry.schema_by_id(7) == RegisteredSchema(7, None, None, INT)
    )
    assert script.requests == ["/schemas/ids/7"]


def test_references_come_with_a_schema_each_behind_what_it_needs(script, clock) -> None:
    def refers(name: str) -> dict[str, object]:
        return {"references": [{"name": name, "subject": f"s/{name}", "version": 2}]}

    script.answer("/schemas/ids/7", {"schema": "top", **refers("b")})
    script.answer("/subjects/s%2Fb/versions/2", {"id": 6, "schema": "b", **refers("a")})
    script.answer("/subjects/s%2Fa/versions/2", {"id": 5, "schema": "a"})
    assert client(script, clock).schema_by_id(7).references == ("a", "b")


def test_references_in_a_circle_end(script, clock) -> None:
    circle = {"references": [{"name": "a", "subject": "a", "version": 1}]}
    script.answer("/subjects/a/versions/1", {"id": 5, "schema": "a", **circle})
    with pytest.raises(RegistryRefusedError, match="refers to more than"):
        client(script, clock).version("a", 1)


def test_latest_version_is_asked_for_each_time(script, clock) -> None:
    for version in (1, 2):
        answer = {"id": version, "schema": INT, "subject": "s", "version": version}
        script.answer("/subjects/s/versions/latest", answer)
    registry = client(script, clock)
    assert [registry.latest("s").version, registry.latest("s").version] == [1, 2]


def test_schema_of_a_guid_comes_with_its_id(script, clock) -> None:
    script.answer("/schemas/guids/ab-cd", {"id": 9, "guid": "ab-cd", "schema": INT})
    assert client(script, clock).schema_by_guid("ab-cd").id == 9


def test_registry_without_guids_has_no_schema_of_one_and_is_asked_once_a_minute(
    script, clock
) -> None:
    script.answer("/schemas/guids/ab-cd", {"message": "no resource"}, 404)
    script.answer("/subjects", [])
    registry = client(script, clock)
    for _ in range(2):
        for guid in ("ab-cd", "ab-ce"):
            with pytest.raises(SchemaNotFoundError, match=f"schema guid {guid}: .* has no GUIDs"):
                registry.schema_by_guid(guid)
        assert len(script.requests) == 2
        clock.advance(2)


def test_wrong_address_is_no_registry_without_guids(script, clock) -> None:
    for path in ("/schemas/guids/ab-cd", "/subjects"):
        script.answer(path, {"message": "no resource"}, 404)
    with pytest.raises(RegistryRefusedError, match="its path included"):
        client(script, clock).schema_by_guid("ab-cd")


def test_missing_id_is_asked_for_again_after_a_second(script, clock) -> None:
    registry = client(script, clock)
    for _ in range(3):
        with pytest.raises(SchemaNotFoundError, match=f"{script.url}: schema id 7: not there"):
            registry.schema_by_id(7)
    assert len(script.requests) == 1
    script.answer("/schemas/ids/7", {"schema": INT})
    clock.advance(1)
    assert registry.schema_by_id(7).text == INT


def test_schema_that_is_no_avro_is_said_to_be_none(script, clock) -> None:
    script.answer("/schemas/ids/7", {"schema": "message A {}", "schemaType": "PROTOBUF"})
    with pytest.raises(SchemaNotFoundError, match="schema id 7: is PROTOBUF, not Avro"):
        client(script, clock).schema_by_id(7)


def test_schema_of_another_kind_is_none_to_a_client(script) -> None:
    script.answer("/schemas/ids/7", {"schema": INT})
    script.answer("/schemas/ids/8", {"schema": "{}", "schemaType": "JSON"})
    registry = RegistryClient(
        RegistrySettings.parse({"url": script.url, "max.retries": 0}), kind="JSON"
    )
    assert registry.schema_by_id(8).text == "{}"
    with pytest.raises(SchemaNotFoundError, match="schema id 7: is AVRO, not JSON Schema"):
        registry.schema_by_id(7)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_registry_that_cannot_answer_then_is_asked_again(script, clock, status) -> None:
    script.answer("/schemas/ids/7", b"<html>", status)
    script.answer("/schemas/ids/7", {"schema": INT})
    assert client(script, clock).schema_by_id(7).text == INT


def test_registry_that_stays_away_is_asked_a_bounded_number_of_times(script, clock) -> None:
    script.answer("/schemas/ids/7", b"", 503)
    before_s = clock.monotonic_s()
    with pytest.raises(RegistryUnavailableError, match=r"schema id 7: HTTP 503 .*asked 3 times"):
        client(script, clock, **{"max.retries": 2, "retries.wait.ms": 100}).schema_by_id(7)
    assert len(script.requests) == 3
    assert clock.monotonic_s() - before_s == pytest.approx(0.1 + 0.2)


def test_registry_that_is_not_there_is_named(clock) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        registry = RegistryClient(RegistrySettings.parse({"url": url, "max.retries": 0}), clock)
        with pytest.raises(RegistryUnavailableError, match=f"{url}: schema id 7: .*refused"):
            registry.schema_by_id(7)


def test_next_address_is_asked_where_one_does_not_answer(script, clock) -> None:
    script.answer("/schemas/ids/7", {"schema": INT})
    registry = client(script, clock, url=f"http://127.0.0.1:1,{script.url}", **{"max.retries": 0})
    assert registry.schema_by_id(7).text == INT


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "see basic.auth.user.info"),
        (403, "not authorised"),
        (404, "its path included"),
        (422, "422"),
    ],
)
@pytest.mark.parametrize("body", [b"<html>\nno</html>", b"[" * 50_000])
def test_refusal_is_told_in_one_line_and_not_asked_again(script, clock, status, said, body) -> None:
    script.answer("/schemas/ids/7", body, status)
    with pytest.raises(
        RegistryRefusedError, match=f"{script.url}: schema id 7: .*{said}"
    ) as raised:
        client(script, clock).schema_by_id(7)
    assert "\n" not in str(raised.value)
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[" * 100_000, [], {}, {"schema": 1}, {"schema": INT, "references": [1]}],
)
def test_what_does_not_answer_like_a_registry_is_refused(script, clock, body) -> None:
    script.answer("/schemas/ids/7", body)
    with pytest.raises(RegistryRefusedError, match="schema id 7: "):
        client(script, clock).schema_by_id(7)


@pytest.mark.parametrize("to", ["/schemas/ids/7", "file:///nowhere"])
def test_redirects_that_end_nowhere_are_told_in_one_line(script, clock, to) -> None:
    script.answer("/schemas/ids/7", to, 302)
    with pytest.raises(RegistryRefusedError, match="does the url lead to a registry") as refused:
        client(script, clock).schema_by_id(7)
    assert "\n" not in str(refused.value)
    assert "redirects" in str(refused.value)


def test_proxy_that_is_none_is_refused_and_its_password_not_told(clock, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http:/jo:canary@proxy")
    registry = RegistryClient(RegistrySettings.parse({"url": "http://registry.example"}), clock)
    with pytest.raises(RegistryRefusedError, match=r"schema id 7: .*proxies") as raised:
        registry.schema_by_id(7)
    assert "canary" not in "".join(format_exception(raised.value))


def test_incompatible_schema_is_told_with_the_registrys_words(script, clock) -> None:
    script.answer("/subjects/s/versions", {"error_code": 409, "message": "a\nfield"}, 409)
    with pytest.raises(IncompatibleSchemaError, match=r"register with subject s: .*a field"):
        client(script, clock).register("s", INT)


def test_credentials_go_with_a_question_and_not_into_what_is_said(script, clock) -> None:
    script.answer("/schemas/ids/7", {}, 401)
    url = script.url.replace("//", "//jo:canary@")
    with pytest.raises(RegistryRefusedError) as raised:
        client(script, clock, url=url).schema_by_id(7)
    assert script.authorizations == ["Basic am86Y2FuYXJ5"]
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "own", "level"),
    [
        ("/apis/ccompat/v7", "NONE", "FULL_TRANSITIVE"),
        ("/apis/ccompat/v7", "BACKWARD", "BACKWARD"),
        ("", "NONE", "NONE"),
    ],
)
def test_level_is_the_one_that_the_registry_holds_a_subject_to(
    script, clock, path, own, level
) -> None:
    script.answer(f"{path}/config/s", {"compatibilityLevel": own})
    script.answer(f"{path}/config", {"compatibilityLevel": "FULL_TRANSITIVE"})
    compatibility = client(script, clock, url=script.url + path).compatibility("s")
    assert (compatibility.level, compatibility.is_own) == (level, level == own)


def test_subject_without_a_level_of_its_own_has_that_of_all(script, clock) -> None:
    script.answer("/config", {"compatibilityLevel": "BACKWARD"})
    compatibility = client(script, clock).compatibility("s")
    assert (compatibility.level, compatibility.is_own, compatibility.is_transitive) == (
        "BACKWARD",
        False,
        False,
    )


def test_silent_registry_has_one_bound_over_all_attempts_and_each_address_is_named() -> None:
    clock = SystemClock()
    with silent_peer() as first, silent_peer() as other:
        settings = RegistrySettings.parse({"url": f"http://{first},http://{other}"})
        registry = RegistryClient(settings, question_s_max=0.2)
        began_s = clock.monotonic_s()
        with pytest.raises(RegistryUnavailableError, match="no answer in time") as raised:
            registry.schema_by_id(7)
        assert clock.monotonic_s() - began_s < settings.timeout_s
    # No pause between two attempts leads over the bound.
    assert str(raised.value).endswith("asked once")
    assert first in str(raised.value)
    assert other in str(raised.value)


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 100000\r\n\r\n", b" "),
    ],
    ids=["status", "head", "body", "chunks", "refusal"],
)
def test_registry_that_sends_a_little_now_and_then_has_the_same_bound(first, drip) -> None:
    clock = SystemClock()
    with dripping_peer(first, drip) as slow:
        settings = RegistrySettings.parse({"url": f"http://{slow}"})
        registry = RegistryClient(settings, question_s_max=0.2)
        began_s = clock.monotonic_s()
        with pytest.raises(RegistryUnavailableError, match=r"no answer in time|HTTP 503"):
            registry.schema_by_id(7)
        assert clock.monotonic_s() - began_s < settings.timeout_s


def test_places_that_an_answer_leads_to_are_within_the_bound_of_the_question() -> None:
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: "
    clock = SystemClock()
    with (
        silent_peer() as silent,
        dripping_peer(head + b"http://%b/\r\n\r\n" % silent.encode()) as redirecting,
    ):
        settings = RegistrySettings.parse({"url": f"http://{redirecting}"})
        began_s = clock.monotonic_s()
        with pytest.raises(RegistryUnavailableError, match="no answer in time"):
            RegistryClient(settings, question_s_max=0.2).schema_by_id(7)
        assert clock.monotonic_s() - began_s < settings.timeout_s


def test_answer_that_is_cut_short_is_none_and_the_registry_is_asked_again(clock) -> None:
    cut = b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"schema"'
    with dripping_peer(cut, None) as address:
        settings = RegistrySettings.parse({"url": f"http://{address}", "max.retries": 1})
        with pytest.raises(RegistryUnavailableError, match=r"schema id 7: .*asked 2 times"):
            RegistryClient(settings, clock).schema_by_id(7)


@pytest.mark.parametrize(
    ("settings", "bound_s"),
    [
        ({}, 15.0 + 0.2 + 0.4 + 0.8),
        ({"timeout": 60, "max.retries": 0}, 60.0),
        ({"timeout": 1, "max.retries": 2, "retries.wait.ms": 4000}, 15.0 + 4.0 + 5.0),
    ],
)
def test_question_takes_as_long_as_the_settings_say_and_no_longer(settings, bound_s) -> None:
    settings = RegistrySettings.parse({"url": "http://a", **settings})
    assert settings.question_s_max == pytest.approx(bound_s)
