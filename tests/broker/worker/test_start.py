"""Goal: a worker that cannot begin says why in one line, and hears signals while it waits.

Method: brokers that ask for a password or a certificate, a port at which nobody answers.
"""

import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from connectors.devtools.broker import BROKER
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.ports import free_ports
from connectors.devtools.server import Server
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.faults.support.campaign import fault_seed

NOBODY = Topic("any", "nobody")


@pytest.fixture
def silent_lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab at whose address somebody listens who never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        lab = Lab(f"127.0.0.1:{server.getsockname()[1]}", tmp_path, fault_seed())
        yield lab
        lab.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_is_heard_while_the_worker_waits_for_a_broker(
    silent_lab: Lab, number: signal.Signals
) -> None:
    worker = silent_lab.worker(NOBODY, as_people_do=True, broker_wait_s=600)
    worker.await_event("started")
    worker.process.send_signal(number)
    assert worker.exit_code() == 0, worker.said()
    assert worker.events("stopping")[0]["reason"] == number.name


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of a broker that asks for a password, and for TLS, by protocol."""
    place = tmp_path_factory.mktemp("guarded")
    request = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=x"
    subprocess.run(["openssl", *request.split()], cwd=place, check=True, capture_output=True)
    both = (place / "key.pem").read_text() + (place / "cert.pem").read_text()
    (place / "store.pem").write_text(both)
    sasl, tls = (f"127.0.0.1:{port}" for port in free_ports(2))
    plain, controller = (f"127.0.0.1:{port}" for port in free_ports(2))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller},"
        f"SASL_PLAINTEXT://{sasl},SSL://{tls}",
        "advertised.listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl},SSL://{tls}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_a="right";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / "store.pem"),
    }
    with Server(
        replace(BROKER, address=plain),
        place / "broker",
        settings=properties,
        jvm_options=SHORT_LIVED,
    ):
        yield {"sasl_plaintext": sasl, "ssl": tls}


def worker_at(tmp_path: Path, address: str, **kafka: str) -> tuple[Lab, WorkerProcess]:
    lab = Lab(address, tmp_path, fault_seed())
    settings: dict[str, Any] = {f"kafka__{name}": value for name, value in kafka.items()}
    return lab, lab.worker(NOBODY, **settings)


@pytest.mark.parametrize(
    ("protocol", "settings", "words"),
    [
        (
            "sasl_plaintext",
            {
                "security__protocol": "sasl_plaintext",
                "sasl__mechanism": "PLAIN",
                "sasl__username": "a",
                "sasl__password": "wrong",
            },
            ("Authentication failed", "sasl.password"),
        ),
        ("ssl", {"security__protocol": "ssl"}, ("certificate", "set kafka.ssl.ca.location")),
        ("ssl", {}, ("this listener speaks TLS", "security.protocol")),
    ],
    ids=["wrong password", "unknown authority", "no TLS where it is asked for"],
)
def test_what_keeps_a_real_broker_from_answering_is_told(
    guarded: dict[str, str],
    tmp_path: Path,
    protocol: str,
    settings: dict[str, str],
    words: tuple[str, ...],
) -> None:
    lab, worker = worker_at(tmp_path, guarded[protocol], **settings)
    assert worker.exit_code() == EXIT_USAGE, worker.said()
    complaint = worker.complaint()
    lab.close()
    for word in (guarded[protocol], *words):
        assert word in complaint
    assert "wrong" not in complaint
