"""Who may ask: tokens, TLS, this machine; and which root, stream and logs are meant."""

import ssl
from datetime import UTC, datetime
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from connectors.serve.tls import Certificate
from connectors.serve.tokens import Tokens
from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    UnsupportedFormatError,
    drop_stream,
    root_id,
)
from storage_core.protocol import (
    INCARNATION,
    LINEAGES,
    PROTOCOL,
    ROOT,
    bearer,
    encode_lineages,
)
from storage_core.testing import ManualClock
from tests.log.serve.served import ANSWER_MAX_S, serving
from tests.log.workbench import Workbench

HERE = Path(__file__).parent
CERTIFICATE, KEY = HERE / "certificate.pem", HERE / "key.pem"
READ, WRITE = "read-token-of-tests", "write-token-of-tests"
OTHER = "other-token-of-tests"
AUTHORIZATION = "Authorization"


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Path]:
    """Files of tokens, one for each right."""
    files = {"read_tokens": tmp_path / "read", "write_tokens": tmp_path / "write"}
    files["read_tokens"].write_text(f"# who reads\n\n{READ}\n")
    files["write_tokens"].write_text(WRITE)
    return files


@pytest.mark.parametrize("token", [None, "", "wrong", READ[:-1], READ + "x", "Basic " + READ, "é"])
@pytest.mark.parametrize(
    "path", ["/v1/streams", "/v1/nope", "/metrics", "/v1/streams/stream-0/read"]
)
def test_request_without_a_known_token_is_told_nothing(bench, tokens, token, path) -> None:
    bench.keep([1])
    headers = {} if token is None else {AUTHORIZATION: bearer(token)}
    with serving(bench.root, headers=headers, **tokens) as served:
        answer = served.get(path)
        body = answer.read()
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (
            401,
            'Bearer realm="shardlog"',
        )
        assert b"stream-0" not in body
        assert READ.encode() not in body
        for open_path in ("/health/live", "/health/ready"):
            answer = served.get(open_path)
            answer.read()
            assert answer.status == 200


@pytest.mark.parametrize("path", ["/v1/streams/stream-0/read", "/command", "/nope"])
@pytest.mark.parametrize("expects", ["", "Expect: 100-continue\r\n"])
def test_body_of_a_client_without_a_known_token_is_not_waited_for(
    bench, tokens, path, expects
) -> None:
    """So it takes no memory: nothing of it is kept."""
    bench.keep([1])
    head = f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {OTHER}\r\n{expects}"
    with serving(bench.root, **tokens) as served, served.connected() as sock:
        sock.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode())
        status = b"HTTP/1.1 404 " if path == "/nope" else b"HTTP/1.1 401 "
        assert sock.recv(len(status)) == status


def test_body_that_is_not_kept_leaves_nothing_before_the_next_answer(bench, tokens) -> None:
    refused = b"POST /v1/streams HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"G" * 300_000
    live = b"GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n"
    with serving(bench.root, **tokens) as served:
        answer = served.exchange(refused + live)
    assert [line for line in answer.split(b"\r\n") if b"HTTP/1.1" in line][-1].endswith(b"200 OK")
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("token", [READ, WRITE])
@pytest.mark.parametrize("scheme", ["Bearer ", "bearer "])
def test_token_of_either_right_may_read(bench, tokens, token, scheme) -> None:
    bench.keep([1])
    with serving(bench.root, headers={AUTHORIZATION: scheme + token}, **tokens) as served:
        assert served.rows("read", bench.name).num_rows == 1


def test_reading_token_may_not_write_and_nobody_may_without_one(tokens) -> None:
    clock = ManualClock()
    tokens_of = Tokens(tokens["read_tokens"], tokens["write_tokens"], clock)
    tokens_of.check(bearer(WRITE), "write")
    with pytest.raises(InvalidRequestError, match="may read, and not write"):
        tokens_of.check(bearer(READ), "write")
    with pytest.raises(InvalidRequestError, match="this server only reads"):
        Tokens(None, None, clock).check(None, "write")


def test_token_added_or_withdrawn_counts_without_a_restart(tokens, capsys) -> None:
    clock = ManualClock()
    tokens_of = Tokens(tokens["read_tokens"], None, clock)
    tokens["read_tokens"].write_text("another-token-of-tests")
    clock.advance(2)
    tokens_of.check(bearer("another-token-of-tests"), "read")
    with pytest.raises(InvalidRequestError, match="does not know the token"):
        tokens_of.check(bearer(READ), "read")
    tokens["read_tokens"].unlink()
    for _ in range(2):
        clock.advance(2)
        tokens_of.check(bearer("another-token-of-tests"), "read")
    assert capsys.readouterr().err.count("the tokens read last go on") == 1


@pytest.mark.parametrize("left", ["", "# nobody\n", "short", "sixteen-letters-é", f"{OTHER}\ns"])
def test_token_that_was_taken_out_of_the_file_is_withdrawn_whatever_is_left(
    tokens, capsys, left
) -> None:
    clock = ManualClock()
    checked = Tokens(tokens["read_tokens"], None, clock)
    tokens["read_tokens"].write_text(left)
    for _ in range(2):
        clock.advance(2)
        with pytest.raises(InvalidRequestError, match="does not know the token"):
            checked.check(bearer(READ), "read")
    if OTHER in left:
        checked.check(bearer(OTHER), "read")
    assert capsys.readouterr().err.count("shardlog: ") == 1
    tokens["read_tokens"].write_text(READ)
    clock.advance(2)
    checked.check(bearer(READ), "read")


@pytest.mark.parametrize("content", ["", "# none\n", "short", "sixteen-letters-é"])
def test_file_without_a_token_worth_the_name_is_refused(tmp_path, content) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(InvalidRequestError, match="token"):
        Tokens(path, None, ManualClock())


def test_address_that_others_reach_needs_tokens_or_a_word_for_it(root: Path, tokens) -> None:
    with pytest.raises(InvalidRequestError, match="--anonymous"):
        ServeSettings(root=root, listen="0.0.0.0:0")
    assert not ServeSettings(root=root, listen="0.0.0.0:0", is_anonymous=True).has_tokens
    assert ServeSettings(root=root, listen="0.0.0.0:0", **tokens).has_tokens
    for listen in ("8085", "nowhere:x", "127.0.0.1:99999"):
        with pytest.raises(InvalidRequestError, match="not an address"):
            ServeSettings(root=root, listen=listen)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "["])
def test_page_of_a_browser_that_names_this_machine_otherwise_is_refused(bench, host) -> None:
    with serving(bench.root) as served:
        served.headers["Host"] = host
        answer = served.get("/v1/streams")
        answer.read()
        assert answer.status == 403
        for own in ("localhost", "LocalHost:8085", "127.0.0.1", "[::1]:8085"):
            served.headers["Host"] = own
            assert served.result("streams") == [bench.name]


def test_answers_are_encrypted_and_the_certificate_is_proven(bench, tokens) -> None:
    bench.keep([1])
    settings = {"tls_certificate": CERTIFICATE, "tls_key": KEY, **tokens}
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    with serving(bench.root, **settings) as served:
        address = f"localhost:{served.server.port}"
        for context in (trusting, ssl.create_default_context()):
            connection = HTTPSConnection(address, timeout=ANSWER_MAX_S, context=context)
            try:
                connection.request("GET", "/v1/streams", headers={AUTHORIZATION: bearer(READ)})
                assert context is trusting
                assert connection.getresponse().read() == b'{"result":["stream-0"]}'
            except ssl.SSLCertVerificationError:
                assert context is not trusting
            finally:
                connection.close()
        # A client without TLS is told in plain what it lacks, and nothing else.
        answer = served.exchange(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"takes only TLS" in answer
        assert served.exchange(b"nothing that is known\r\n\r\n") == b""
        assert served.server.url.startswith("https://")


@pytest.mark.parametrize(
    ("certificate", "key", "named"),
    [
        (CERTIFICATE, None, "--tls-key"),
        (CERTIFICATE, CERTIFICATE, "cannot be used: one has no PEM of its kind$"),
        (KEY, KEY, "cannot be used: one has no PEM of its kind$"),
        (HERE / "gone.pem", KEY, "gone.pem: no such file"),
        (CERTIFICATE, HERE / "gone.pem", "gone.pem: no such file"),
        (HERE, KEY, "serve: is a directory"),
    ],
)
def test_certificate_that_cannot_be_used_is_refused(bench, certificate, key, named) -> None:
    settings = {"tls_certificate": certificate, "tls_key": key}
    with pytest.raises(InvalidRequestError, match=named), serving(bench.root, **settings):
        pass


@pytest.mark.parametrize(
    ("year", "complaint"),
    [
        (1971, "certificate.pem is not valid before 20"),
        (2021, None),
        (2050, None),
        (9000, "certificate.pem expired at 21"),
    ],
)
def test_certificate_out_of_its_time_is_told(year: int, complaint: str | None) -> None:
    moment_ns = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9
    wrong = Certificate(CERTIFICATE, KEY, ManualClock(moment_ns)).out_of_date()
    assert wrong is None if complaint is None else complaint in str(wrong)


def test_metric_says_when_the_certificate_expires(bench: Workbench) -> None:
    name = "shardlog_server_certificate_expires_timestamp_seconds"
    settings = ServeSettings(
        root=bench.root, listen="127.0.0.1:0", tls_certificate=CERTIFICATE, tls_key=KEY
    )
    with ShardServer(settings, "1") as own:
        (family,) = [one for one in own.handler.figures.families() if one.name == name]
    assert datetime.fromtimestamp(family.samples[0].value, UTC).year > 2100


def test_client_of_another_root_stream_or_log_is_refused(bench: Workbench) -> None:
    bench.keep([1])
    lineages = {0: bench.stream.lineage(0)}
    with serving(bench.root) as served:
        incarnation = served.result("position", bench.name).incarnation
        right = {
            ROOT: root_id(bench.root),
            INCARNATION: incarnation,
            LINEAGES: encode_lineages(lineages),
            PROTOCOL: "1",
        }
        served.headers = right
        assert served.rows("read", bench.name).num_rows == 1
        for header, other in (
            (ROOT, "0" * 32),
            (INCARNATION, "0" * 32),
            (LINEAGES, encode_lineages({0: "0" * 32})),
            (LINEAGES, encode_lineages({**lineages, 1: "0" * 32})),
            (LINEAGES, "nonsense"),
        ):
            served.headers = {**right, header: other}
            for call in ("read", "committed"):
                assert type(served.refusal(call, bench.name)) is ForeignDataError
        served.headers = {**right, PROTOCOL: "2"}
        for call in ("read", "committed"):
            refusal = served.refusal(call, bench.name)
            assert type(refusal) is UnsupportedFormatError
            assert "protocol 1, not 2" in str(refusal)


def test_stream_made_anew_is_told_to_who_knew_the_old_one(bench: Workbench) -> None:
    bench.keep([1])
    with serving(bench.root) as served:
        old = served.result("facts", bench.name).incarnation
        bench.close()
        drop_stream(bench.root, bench.name)
        with Stream.create(bench.root, bench.name, StreamOptions(shards=1)) as anew:
            anew.append(2, 1, b"new")
            anew.commit()
            facts = served.result("facts", bench.name)
            assert facts.incarnation != old
            assert served.rows("read", bench.name).column("payload").to_pylist() == [b"new"]
            served.headers[INCARNATION] = old
            assert "made anew" in str(served.refusal("read", bench.name))


def test_client_that_knows_a_newer_stream_than_the_server_is_answered(bench: Workbench) -> None:
    bench.keep([1])
    with serving(bench.root) as served, serving(bench.root) as other:
        assert other.rows("read", bench.name).num_rows == 1
        bench.close()
        drop_stream(bench.root, bench.name)
        Stream.create(bench.root, bench.name, StreamOptions(shards=1)).close()
        facts = served.result("facts", bench.name)
        other.headers[INCARNATION] = facts.incarnation
        other.headers[LINEAGES] = encode_lineages(facts.lineages)
        assert other.rows("read", bench.name).num_rows == 0


def test_shard_that_was_reset_is_told_to_who_knew_its_log(copy) -> None:
    copy.add({3: 100})
    copy.open(3)
    copy.append(3, [100, 101])
    copy.stream.commit()
    with serving(copy.root) as served:
        lineages = served.result("facts", "clicks").lineages
        copy.stream.close()
        Stream.archive_shards(copy.root, "clicks", {3: 50})
        copy.open(3)
        copy.append(3, [50])
        copy.stream.commit()
        assert served.result("facts", "clicks").lineages != lineages
        assert served.rows("tail", "clicks", shard=3).column("address").to_pylist() == [50]
        served.headers[LINEAGES] = encode_lineages(lineages)
        assert "reset" in str(served.refusal("tail", "clicks", shard=3))
        del served.headers[LINEAGES]
        path = f"/v1/streams/clicks/committed?archived={lineages[3]}"
        assert served.get(path).read() == b'{"result":{"3":102}}'


def test_shard_that_was_reset_since_a_request_brought_it_is_served(copy) -> None:
    copy.add({3: 100})
    with serving(copy.root) as served:
        served.result("facts", "clicks")
        copy.add({4: 100})
        assert served.result("refresh", "clicks").committed == {3: 100, 4: 100}
        copy.release()
        Stream.archive_shards(copy.root, "clicks", {4: 50})
        served.result("facts", "clicks")
        assert served.result("committed", "clicks") == {3: 100, 4: 50}


@pytest.mark.parametrize("added", [1, 7])
def test_shard_that_was_added_is_seen_and_refuses_nobody(copy, added) -> None:
    copy.add({4: 0})
    with serving(copy.root) as served:
        lineages = served.result("facts", "clicks").lineages
        served.headers[LINEAGES] = encode_lineages(lineages)
        copy.add({added: 7})
        with serving(copy.root, headers=served.headers) as restarted:
            for server in (served, restarted):
                assert server.result("refresh", "clicks").committed == {4: 0, added: 7}
                assert server.result("committed", "clicks") == {4: 0, added: 7}


def test_shard_that_another_server_has_seen_is_seen_here_too(copy) -> None:
    copy.add({0: 0})
    with serving(copy.root) as served, serving(copy.root) as other:
        assert other.result("committed", "clicks") == {0: 0}
        copy.add({1: 7})
        other.headers[LINEAGES] = encode_lineages(served.result("facts", "clicks").lineages)
        assert other.result("committed", "clicks") == {0: 0, 1: 7}


@pytest.mark.parametrize("name", ["..", "%2e%2e", "a%2fb", "x" * 300, "%00", "nope", ""])
def test_name_that_is_no_stream_is_refused(bench, name) -> None:
    with serving(bench.root) as served:
        answer = served.get(f"/v1/streams/{name}/committed")
        body = answer.read()
        assert (answer.status, b"InvalidRequestError" in body) == (400, True)
