"""The dev stack's own promises: it answers, comes back, leaves nothing behind, fetches once."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from connectors.cli.commands import dev
from connectors.devtools.broker import BROKER, is_broker_answering
from connectors.devtools.fetch import Bundle, fetched
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.places import dev_directory
from connectors.devtools.process import Process
from connectors.devtools.registry import is_registry_answering
from connectors.devtools.server import Server
from connectors.devtools.stack import DevStack
from storage_core import UnavailableError

REPOSITORY = Path(__file__).parents[3]
CHILD_MAX_S = 600
GONE_MAX_S = 60

START_AND_TELL = """
import sys
from pathlib import Path
from connectors.devtools.broker import BROKER
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.server import Server
broker = Server(BROKER, Path(sys.argv[1]), jvm_options=SHORT_LIVED)
broker.start()
print(broker.running.program.pid, broker.address, flush=True)
sys.stdin.read()
"""
FETCH_SMALL = """
import sys
from pathlib import Path
from connectors.devtools.fetch import Bundle, fetched
small = Bundle(
    name="slf4j-api-1.7.36",
    dependencies='<dependency org="org.slf4j" name="slf4j-api" rev="1.7.36" transitive="false"'
    ' conf="default->default"/>',
    files=1,
    megabytes=1,
    sha256="4f858dece2d3e14d30fecc72fc41c4182a873e965676736fdb1b5bf575ba5f4c",
)
print(fetched(small, Path(sys.argv[1])))
"""
JAR = b"what a jar holds"
OF_A_MOMENT = Bundle(
    name="small-1",
    dependencies='<dependency org="of" name="small" rev="1" transitive="false"'
    ' conf="default->default"/>',
    files=1,
    megabytes=1,
    # What `sha256sum small-1.jar | sha256sum` prints.
    sha256="c8d6eb34f3f06136b0747aefb284cf26f98079928189265eea96692783fbfec1",
)
IVY_SETTINGS = """
<ivysettings><settings defaultResolver="it"/><resolvers>
<url name="it" checksums=""><artifact pattern="{url}/[artifact]-[revision].[ext]"/></url>
</resolvers></ivysettings>
"""


def python(source: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=CHILD_MAX_S,
        check=True,
        **options,
    )


def test_shared_broker_answers(broker):
    assert is_broker_answering(broker)


def test_shared_registry_answers(registry):
    assert is_registry_answering(registry)


def test_killed_broker_comes_back_with_its_address_and_its_data(tmp_path):
    with Server(BROKER, tmp_path, jvm_options=SHORT_LIVED) as broker:
        address, identity = broker.address, (tmp_path / "data/meta.properties").read_bytes()
        broker.kill()
        assert not is_broker_answering(address)
        broker.start()
        assert is_broker_answering(address)
        assert broker.address == address
        assert (tmp_path / "data/meta.properties").read_bytes() == identity
    assert not (tmp_path / "data").exists()


def test_killed_parent_leaves_neither_broker_nor_data(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_TELL, str(tmp_path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid, address = parent.stdout.readline().split()
        jvm = Process.find(int(pid))
        assert jvm is not None
        guard = Process.find(parent_of(jvm))
        assert guard is not None
        parent.kill()
    assert jvm.has_ended_within(GONE_MAX_S)
    assert guard.has_ended_within(GONE_MAX_S)
    assert not is_broker_answering(address)
    assert not (tmp_path / "data").exists()


def parent_of(process: Process) -> int:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def test_broker_that_cannot_start_quotes_its_log_and_names_it(tmp_path):
    broker = Server(BROKER, tmp_path, settings={"log.retention.ms": "soon"})
    with pytest.raises(UnavailableError, match=r"soon.*log\.retention\.ms.*broker\.log"):
        broker.start()
    assert broker.running is None


def test_two_fetches_at_once_fetch_once(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: python(FETCH_SMALL, str(tmp_path)), range(2)))
    assert sorted("once" in done.stderr for done in both) == [False, True]
    assert (tmp_path / "slf4j-api-1.7.36/slf4j-api-1.7.36.jar").is_file()
    assert not list(tmp_path.glob("*.partial"))


@pytest.fixture
def busy_at_first() -> Iterator[str]:
    """The URL of a server of jars that has no answer to the first question for one."""
    questions: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            questions.append(self.path)
            self.send_response(503 if len(questions) == 1 else 200)
            self.send_header("Content-Length", str(len(JAR)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(JAR)

        def do_HEAD(self) -> None:
            self.do_GET()

        @override
        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def test_what_a_server_refused_for_a_moment_is_fetched(
    tmp_path: Path, busy_at_first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text(IVY_SETTINGS.format(url=busy_at_first))
    monkeypatch.setenv("SHARDLOG_IVY_SETTINGS", str(settings))
    place = fetched(OF_A_MOMENT, tmp_path / "cache")
    assert (place / "small-1.jar").read_bytes() == JAR


def test_detached_broker_outlives_the_command_and_is_found_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SHARDLOG_STATE", str(tmp_path))
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    try:
        printed = python("from connectors.cli.main import run; run(['dev', 'up'])").stdout.strip()
        address = printed.removeprefix("export KAFKA_BOOTSTRAP=")
        assert DevStack(dev_directory()).address(BROKER) == address
        dev.status()
        assert address in capsys.readouterr().out
    finally:
        dev.down()
    assert capsys.readouterr().out == "unset KAFKA_BOOTSTRAP\n"
    assert not is_broker_answering(address)
