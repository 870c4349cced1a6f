"""A registry behind TLS: whom we trust, who we are, and the line where either is not enough."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.registry import (
    RegistryClient,
    RegistryRefusedError,
    RegistrySettings,
)
from storage_core import InvalidRequestError, ShardlogError
from tests.unit.connectors.registry.scripted import Scripted, scripted

PASSWORD = "canary"  # noqa: S105 - of a key made for one test


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> tuple[Pair, Pair]:
    """The registry's own certificate, and one of ours whose key has a password."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("tls")

    def made(name: str, *options: str) -> Pair:
        pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt")
        curve = ("ec_paramgen_curve:P-256", "-days", "2", "-subj", f"/CN={name}")
        files = ("-keyout", str(pair.key), "-out", str(pair.certificate))
        subprocess.run([*command, *curve, *files, *options], check=True, capture_output=True)
        return pair

    registry = made("registry", "-nodes", "-addext", "subjectAltName=IP:127.0.0.1")
    return registry, made("worker", "-passout", f"pass:{PASSWORD}")


@pytest.fixture
def script(pairs) -> Iterator[Scripted]:
    registry, worker = pairs
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(registry.certificate, registry.key)
    context.load_verify_locations(worker.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted(context) as script:
        script.answer("/schemas/ids/7", {"schema": '"int"'})
        yield script


def client(script: Scripted, **settings) -> RegistryClient:
    names = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return RegistryClient(RegistrySettings.parse({"url": script.url, "max.retries": 0, **names}))


def test_registry_and_client_that_know_each_other_speak(script, pairs) -> None:
    own, worker = pairs
    registry = client(
        script,
        ssl_ca_location=own.certificate,
        ssl_certificate_location=worker.certificate,
        ssl_key_location=worker.key,
        ssl_key_password=PASSWORD,
    )
    assert registry.schema_by_id(7).text == '"int"'


def test_certificate_that_nobody_vouches_for_is_refused(script) -> None:
    with pytest.raises(RegistryRefusedError, match=r"not trusted: .*set ssl\.ca\.location"):
        client(script).schema_by_id(7)


def test_registry_that_wants_a_certificate_is_told_so(script, pairs) -> None:
    registry, _ = pairs
    # Its refusal may be lost when it closes; then it is as if it did not answer.
    with pytest.raises(ShardlogError, match=r"see ssl\.certificate\.location"):
        client(script, ssl_ca_location=registry.certificate).schema_by_id(7)


@pytest.mark.parametrize("password", [{}, {"ssl_key_password": "wrong"}])
def test_key_that_the_password_does_not_open_is_named(script, pairs, password) -> None:
    _, worker = pairs
    files = {"ssl_certificate_location": worker.certificate, "ssl_key_location": worker.key}
    with pytest.raises(InvalidRequestError, match=r"worker\.key: cannot be used"):
        client(script, **files, **password)
