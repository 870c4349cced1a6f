"""Why no broker answers: real listeners that are none, or speak otherwise; no broker runs here."""

import contextlib
import socket
import threading

import pytest

from connectors.kafka.admin import Admin
from connectors.kafka.reach import await_broker
from storage_core import (
    BrokerUnavailableError,
    InvalidRequestError,
    ShardlogError,
    SystemClock,
)
from storage_core.testing import ManualClock
from tests.waiting import WAIT_MAX_S


@contextlib.contextmanager
def listening(answer):
    """Listen on a port of this machine and answer each caller; yield host:port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                caller, _ = server.accept()
                threading.Thread(target=hung_up, args=(answer, caller), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        # Closing alone does not wake who waits for a caller.
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def hung_up(answer, caller):
    with caller, contextlib.suppress(OSError):
        answer(caller)


def stay_silent(caller):
    while caller.recv(1024):
        pass


SYSTEM = SystemClock()
USER = {"sasl_mechanism": "PLAIN", "sasl_username": "jo", "sasl_password": "x"}


class Callers(ManualClock):
    """A listener that hangs up; by its clock the time is over with the fourth caller."""

    def hang_up(self, caller):
        caller.recv(4)
        self.advance(5.0)


def refusal(kind, servers, wait_s=20.0, sure_after_s=0.0, clock=SYSTEM, **settings):
    """Return what is said of brokers that do not answer."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    settings = {"bootstrap.servers": servers, **named}
    with pytest.raises(kind) as raised:
        await_broker(settings, wait_s, sure_after_s=sure_after_s, clock=clock)
    return str(raised.value)


def expect(said, *words):
    for word in words:
        assert word in said


def expect_unavailable(servers, *words, **settings):
    """Expect brokers that may come yet; what is wrong is waited for longer on a slow machine."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    wait_s, error, missing = 0.5, None, [*words]
    while missing:
        assert wait_s < WAIT_MAX_S, error
        with pytest.raises(ShardlogError) as raised:
            await_broker({"bootstrap.servers": servers, **named}, wait_s, sure_after_s=wait_s)
        error = raised.value
        missing = [word for word in words if word not in str(error)]
        wait_s *= 2
    assert isinstance(error, BrokerUnavailableError)
    return str(error)


def test_closed_port_may_open_later():
    remedy = "start the broker, or correct host and port"
    expect_unavailable("127.0.0.1:1", "127.0.0.1:1", "Connection refused", remedy)


def test_host_that_has_no_address_will_have_none_later():
    began_s = SYSTEM.monotonic_s()
    said = refusal(InvalidRequestError, "no-such-host.invalid:9092", wait_s=WAIT_MAX_S)
    assert SYSTEM.monotonic_s() - began_s < WAIT_MAX_S / 2
    expect(said, "no-such-host.invalid:9092", "resolve", "correct kafka.bootstrap.servers")


def test_listener_that_hangs_up_may_be_a_broker_that_starts():
    callers = Callers()
    with listening(callers.hang_up) as address:
        said = refusal(BrokerUnavailableError, address, sure_after_s=20.0, clock=callers)
        expect(said, address, "hangs up")


def test_listener_that_hangs_up_on_tls_takes_none():
    with listening(Callers().hang_up) as address:
        said = refusal(InvalidRequestError, address, security_protocol="ssl")
        expect(said, address, "speaks no TLS")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"security_protocol": "ssl"},
        {"security_protocol": "sasl_plaintext", **USER},
        {"security_protocol": "sasl_ssl", **USER},
    ],
)
def test_silence_is_told_as_silence_whatever_the_protocol(settings):
    with listening(stay_silent) as address:
        said = refusal(BrokerUnavailableError, address, wait_s=0.5, **settings)
        expect(said, address, "no broker at", "firewalls")


def test_waiting_ends_when_it_is_no_longer_wanted():
    calls = []

    def is_wanted():
        calls.append(True)
        return len(calls) < 3

    await_broker({"bootstrap.servers": "127.0.0.1:1"}, 60.0, is_wanted)
    assert len(calls) == 3


def test_broker_serves_once_it_names_itself_and_a_controller():
    # librdkafka brings a cluster of its own for tests.
    cluster = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": "1"}
    assert Admin(cluster).is_serving()
    assert not Admin({"bootstrap.servers": "127.0.0.1:1"}).is_serving(0.1)
    with listening(stay_silent) as address:
        assert not Admin({"bootstrap.servers": address}).is_serving(0.1)


def test_endpoint_that_gives_no_token_is_named():
    with listening(stay_silent) as address:
        oidc = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc"}
        oidc |= {"security_protocol": "sasl_plaintext", "sasl_oauthbearer_client_id": "jo"}
        oidc |= {"sasl_oauthbearer_client_secret": "canary"}
        oidc |= {"sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/tokens"}
        said = expect_unavailable(address, "127.0.0.1:1", "token", **oidc)
    assert "canary" not in said
