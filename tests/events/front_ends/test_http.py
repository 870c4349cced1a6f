"""`POST /command`: what goes in, which forms come out, and what a browser's page cannot do."""

import json
import socket
from io import BytesIO

import pyarrow as pa
import pytest

from connectors.serve.commands.bodies import COMMANDS_MAX
from storage_core.protocol import RowStream
from tests.events.front_ends.doors import commanding, posted
from tests.log.serve.served import ANSWER_MAX_S

READ, WRITE = "read-token-of-tests", "write-token-of-tests"
STORE = 'STORE order FOR c-1 PAYLOAD {"amount": 5}'
DEFINE = 'DEFINE order FIELDS { amount: "int" }'


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", "text"),
        ("text/plain", "text"),
        ("text/html, */*;q=0.1", "text"),
        ("text/plain;q=0.5, application/json", "json"),
        ("application/json;charset=utf-8", "json"),
        ("application/x-ndjson", "jsonl"),
        ("text/csv", "csv"),
        ("application/vnd.apache.arrow.stream", "arrow"),
        ("application/vnd.apache.arrow.stream;q=0, application/json", "json"),
    ],
)
def test_form_of_the_answer_is_what_accept_wants_most(served, accept, form) -> None:
    code, body, headers = posted(served, "DESCRIBE order", Accept=accept)
    assert (code, headers["Shardlog-Status"]) == (200, "OK")
    if form == "arrow":
        rows = RowStream(BytesIO(body)).read_all().to_pylist()
        assert pa.ipc.open_stream(body).read_all().to_pylist() == rows
        names = [row["field"] for row in rows]
    else:
        read = {
            "json": lambda text: [row["field"] for row in json.loads(text)["rows"]],
            "jsonl": lambda text: [json.loads(line)["field"] for line in text.splitlines()],
            "csv": lambda text: [line.split(",")[1].strip('"') for line in text.splitlines()[1:]],
            "text": lambda text: [line.split()[1] for line in text.splitlines()[1:-1]],
        }
        names = read[form](body.decode())
    assert names == ["amount", "note"]


def test_answer_without_columns_has_every_form(served) -> None:
    said = {"text/plain": b"PONG\n", "text/csv": b'status,message\n"OK","PONG"\n'}
    said["application/x-ndjson"] = b'{"status": "OK", "message": "PONG"}\n'
    for accept, body in said.items():
        assert posted(served, "PING", Accept=accept)[:2] == (200, body)
    code, body, headers = posted(served, "PING", Accept="application/vnd.apache.arrow.stream")
    rows = RowStream(BytesIO(body))
    assert (code, rows.read_all().num_rows, headers["Shardlog-Message"]) == (200, 0, "PONG")
    assert rows.result == {"status": "OK", "message": "PONG"}


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ("NOPE", 400, "BadRequest"),
        ("DESCRIBE nothing", 404, "NotFound"),
        (f"{STORE} EXPECT 7", 409, "Conflict"),
        ("", 400, "BadRequest"),
        (b"PING \xff", 400, "BadRequest"),
        ("x" * (2**20 + 1), 413, "BadRequest"),
    ],
)
@pytest.mark.parametrize("accept", ["application/json", "application/vnd.apache.arrow.stream"])
def test_failed_command_has_a_status_of_http_and_one_line(
    served, body, code, status, accept
) -> None:
    answered, text, headers = posted(served, body, Accept=accept)
    said = json.loads(text)
    assert (answered, said["status"], headers["Shardlog-Status"]) == (code, status, status)
    assert "\n" not in said["message"]
    if code == 413:
        assert "1,048,576 is the most" in said["message"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "code"),
    [
        ("GET", "/command", {}, 405),
        ("HEAD", "/command", {}, 405),
        ("POST", "/command?command=PING", {}, 400),
        ("POST", "/command", {"Accept": "image/png"}, 406),
        ("POST", "/command", {"Content-Type": "application/json"}, 415),
        ("POST", "/command", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ("POST", "/command", {"Origin": "http://elsewhere.example"}, 403),
        ("POST", "/command", {"Origin": "null"}, 403),
        ("POST", "/command", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", "/command", {"Host": "elsewhere.example"}, 403),
    ],
)
def test_request_that_is_none_or_of_a_foreign_page_is_refused(
    served, method, path, headers, code
) -> None:
    assert posted(served, "PING", method, path, **headers)[0] == code


def test_page_of_the_server_itself_and_curl_may_command(served) -> None:
    host = served.server.address
    of_page = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    of_curl = {"Content-Type": "application/x-www-form-urlencoded"}
    assert [posted(served, "PING", **each)[0] for each in (of_page, of_curl)] == [200, 200]


def test_lines_are_counted_and_each_that_failed_is_told_by_its_number(tmp_path) -> None:
    with commanding(tmp_path) as served:
        body = "\n".join((DEFINE, STORE, "", STORE.replace("5", '"x"'), "NOPE", f"{STORE};"))
        code, text, _ = posted(served, body)
        said = json.loads(text)
        assert (code, said["status"]) == (400, "BadRequest")
        assert said["message"].startswith("3 of 5 commands done; line 4: ")
        assert [(row["line"], row["status"]) for row in said["rows"]] == [
            (4, "BadRequest"),
            (5, "BadRequest"),
        ]
        code, text, _ = posted(served, "\n".join([STORE] * 300))
        assert (code, json.loads(text)["message"]) == (200, "300 commands done")
        assert served.metric("shardlog_server_events_stored_total") == 302


def test_rows_are_asked_for_last_and_only_where_all_before_went_well(tmp_path) -> None:
    with commanding(tmp_path) as served:
        last = json.loads(posted(served, f"{DEFINE}; {STORE}; DESCRIBE order")[1])
        assert [row["field"] for row in last["rows"]] == ["amount"]
        failed = json.loads(posted(served, f"{STORE}; STORE; DESCRIBE order")[1])
        assert (failed["status"], failed["rows"][0]["line"]) == ("BadRequest", 1)
        early = json.loads(posted(served, f"DESCRIBE order;\n{STORE}")[1])
        assert "only the last may ask for rows" in early["message"]
        assert served.metric("shardlog_server_events_stored_total") == 2


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks for tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "read").write_text(READ)
    (folder / "write").write_text(WRITE)
    tokens = {"read_tokens": folder / "read", "write_tokens": folder / "write"}
    with commanding(folder / "root", **tokens) as served:
        yield served


@pytest.mark.parametrize(
    ("token", "command", "code"),
    [
        (None, "PING", 401),
        ("wrong-token-of-tests", "PING", 401),
        (READ, "PING", 200),
        (READ, DEFINE, 403),
        (READ, f"PING; {DEFINE}", 403),
        (READ, "FLUSH", 403),
        (WRITE, DEFINE, 200),
    ],
)
def test_token_says_what_a_command_may(guarded, token, command, code) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answered, text, _ = posted(guarded, command, **headers)
    assert answered == code
    assert "Traceback" not in text.decode()


def test_server_that_only_reads_stores_nothing(tmp_path) -> None:
    with commanding(tmp_path, is_writable=False) as served:
        code, text, _ = posted(served, DEFINE)
        assert (code, posted(served, "PING")[0]) == (403, 200)
        assert "--write-token-file" in json.loads(text)["message"]


def test_health_says_who_owns_the_event_streams(tmp_path) -> None:
    with commanding(tmp_path) as served, commanding(tmp_path, command_socket=None) as other:
        assert posted(served, DEFINE)[0] == 200
        code, text, headers = posted(other, DEFINE)
        assert (code, json.loads(text)["status"], headers["Retry-After"]) == (503, "Busy", "1")
        assert json.loads(served.get("/health/ready").read())["events_owner"] == "this server"
        reply = json.loads(other.get("/health/ready").read())
        assert (reply["healthy"], reply["events_owner"]) == (True, json.loads(text)["message"])


@pytest.mark.parametrize("command", ["FLUSH", "REMEMBER QUERY order AS all_orders"])
def test_command_that_stores_no_event_makes_no_owner(tmp_path, command) -> None:
    with commanding(tmp_path) as served, commanding(tmp_path, command_socket=None) as other:
        assert posted(served, DEFINE)[0] == 200
        assert posted(other, command)[0] == 200
        assert "events_owner" not in json.loads(other.get("/health/ready").read())


def test_client_that_goes_away_leaves_nothing_behind(served) -> None:
    for _ in range(20):
        with socket.create_connection((served.server.host, served.server.port)) as sock:
            sock.settimeout(ANSWER_MAX_S)
            sock.sendall(b"POST /command HTTP/1.1\r\nContent-Length: 9\r\n\r\nLIST TYPES")
    assert posted(served, "PING")[0] == 200
    assert served.metric("shardlog_server_answers") == 0


def test_too_many_commands_of_a_request_are_refused_before_any_is_done(served) -> None:
    store = STORE.replace("c-1", "crowd")
    code, body, _ = posted(served, f"{store}\n" * (COMMANDS_MAX + 1))
    assert (code, f"at most {COMMANDS_MAX:,} commands" in body.decode()) == (400, True)
    counted = posted(served, "QUERY order FOR crowd COUNT", Accept="application/json")[1]
    assert json.loads(counted)["rows"] == [{"count": 0}]
    code, body, _ = posted(served, "PING;" * COMMANDS_MAX, Accept="text/plain")
    assert (code, body) == (200, b"10,000 commands done\n")
