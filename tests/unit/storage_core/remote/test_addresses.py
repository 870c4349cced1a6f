"""Addresses of servers: what is one, and what is told of what is none."""

import pytest

from storage_core import InvalidRequestError, Stream, StreamReader, list_streams, root_id
from storage_core.remote.addresses import Address, names_servers, parse_servers


@pytest.mark.parametrize(
    ("text", "addresses", "is_encrypted"),
    [
        ("shardlog://a:8085,b:8085", (Address("a", 8085), Address("b", 8085)), False),
        ("shardlogs://a", (Address("a", 8085),), True),
        ("a:1, b:2/", (Address("a", 1), Address("b", 2)), False),
        (
            "shardlog://[::1]:9,[fe80::1%eth0]",
            (Address("::1", 9), Address("fe80::1%eth0", 8085)),
            False,
        ),
        ("a:1,a:1", (Address("a", 1),), False),
        ("shardlogs://a:1, shardlogs://b:2", (Address("a", 1), Address("b", 2)), True),
        ("shardlog://a:1+shardlog://b:2", (Address("a", 1), Address("b", 2)), False),
    ],
)
def test_addresses_are_read_with_their_ports(text, addresses, is_encrypted):
    servers = parse_servers(text)
    assert (servers.addresses, servers.is_encrypted) == (addresses, is_encrypted)
    assert parse_servers(servers.text) == servers


@pytest.mark.parametrize(
    "text",
    [
        *("", "shardlog://", "shardlog://a:0", "a:70000", "a:x", "a:1,,b:1", "a b:1", "::1:8085"),
        *(
            "shardlog://a:1/stream",
            "shardlog://a:1?token=x",
            "http://a:1",
            "a:1,https://b:2",
            ",".join(["a"] * 65),
        ),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidRequestError):
        parse_servers(text)


@pytest.mark.parametrize(
    "text", ["shardlogs://a:1,shardlog://b:2", "a:1,shardlogs://b:2", "a:1+shardlogs://b:2"]
)
def test_servers_of_different_schemes_are_refused_by_what_is_wrong(text):
    with pytest.raises(InvalidRequestError, match="all over TLS, or none"):
        parse_servers(text)


@pytest.mark.parametrize("text", ["https://b:2", "shardlog://https://b:2", "a:1,http://b:2"])
def test_address_of_a_browser_is_told_as_ours(text):
    with pytest.raises(InvalidRequestError, match="it is shardlog://HOST:PORT"):
        parse_servers(text)


def test_token_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(InvalidRequestError) as raised:
        parse_servers("shardlog://user:secret@a:8085")
    assert "secret" not in str(raised.value)
    assert "SHARDLOG_SERVER_TOKEN_FILE" in str(raised.value)


@pytest.mark.parametrize(
    ("root", "is_named"),
    [("shardlog://a", True), ("shardlogs://a", True), ("/shardlog://a", False), (b"x", False)],
)
def test_scheme_alone_names_servers(root, is_named):
    assert names_servers(root) == is_named


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_address_as_a_browser_has_it_is_told_and_is_no_path(scheme, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    address = f"{scheme}://127.0.0.1:8085"
    for call in (
        lambda: StreamReader.open(address, "trips"),
        lambda: list_streams(address),
        lambda: root_id(address),
    ):
        with pytest.raises(InvalidRequestError, match="it is shardlog://HOST:PORT"):
            call()
    with pytest.raises(InvalidRequestError):
        Stream.create(address, "trips")
    assert list(tmp_path.iterdir()) == []
