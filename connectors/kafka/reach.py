"""Waits for a broker; if none answers, says why: host, port, cause, and what to do.

librdkafka answers "broker transport failure" whatever the cause is. Error events say what happened
at each address; for a listener of another protocol only log lines do. A client that is created for
this purpose collects both.

Permanent causes (names, credentials, certificates, protocols) raise `InvalidRequestError` within a
few seconds; others (closed ports, silence) raise `BrokerUnavailableError` when the time is over.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as rdadmin

from connectors.kafka.settings import LOGGER_NAME, admin_settings, line_without_secrets
from connectors.kafka.translate import translated
from storage_core import (
    BrokerUnavailableError,
    Clock,
    InvalidRequestError,
    ShardlogError,
    SystemClock,
)

_LOOK_EVERY_S: Final = 0.2
# A broker that starts may refuse for a moment what it takes a moment later.
_SURE_AFTER_S: Final = 3.0
_LOOK_CLOSER_S: Final = 2.0
_TOKENS_FROM: Final = "sasl.oauthbearer.token.endpoint.url"
_CLOCK: Final = SystemClock()
_library: Any = rdadmin


@dataclass(frozen=True, slots=True)
class _Cause:
    """One cause: how librdkafka tells it, what to do, whether waiting may help."""

    codes: tuple[int, ...]
    words: tuple[str, ...]
    remedy: str
    may_pass: bool = False


_TLS_LISTENER: Final = _Cause(
    (),
    ("connecting to a SSL listener",),
    "this listener speaks TLS: set kafka.security.protocol to SSL or SASL_SSL, or use another port",
)
_HANGS_UP: Final = _Cause(
    (),
    ("in state APIVERSION_QUERY",),
    "the listener hangs up at once: is it a broker, does it speak kafka.security.protocol",
    may_pass=True,
)
# The first that fits. NOTE: librdkafka (2.16) words its guesses at a wrong protocol as questions.
_CAUSES: Final = (
    _Cause(
        (),
        ("connecting to a PLAINTEXT broker listener", "wrong version number"),
        "this listener speaks no TLS: set kafka.security.protocol without SSL, or use another port",
    ),
    _Cause(
        (),
        ("certificate verify failed", "certificate could not be verified"),
        "the broker's certificate is not trusted: set kafka.ssl.ca.location to its authority's",
    ),
    _Cause(
        (KafkaError._SSL,),  # noqa: SLF001 - librdkafka's own names begin so
        ("SSL handshake failed",),
        "check kafka.ssl.*: authorities, certificate, key and the host's name",
    ),
    _Cause(
        (),
        ("OAUTHBEARER token: Failed to connect", "OAUTHBEARER token: Could not resolve"),
        "start the token endpoint, or correct kafka.sasl.oauthbearer.token.endpoint.url",
        may_pass=True,
    ),
    _Cause(
        (),
        ("Failed to acquire SASL OAUTHBEARER token",),
        "check kafka.sasl.oauthbearer.token.endpoint.url, client.id and client.secret",
    ),
    _Cause(
        (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),  # noqa: SLF001
        ("Authentication failed",),
        "check kafka.sasl.username, sasl.password and sasl.mechanism",
    ),
    _Cause(
        (KafkaError._RESOLVE,),  # noqa: SLF001
        ("Failed to resolve",),
        "no such host: correct kafka.bootstrap.servers, or the name service",
    ),
    _TLS_LISTENER,
    _HANGS_UP,
    _Cause(
        (),
        ("Connection refused",),
        "nothing listens there: start the broker, or correct host and port",
        may_pass=True,
    ),
)


def await_broker(
    settings: Mapping[str, object],
    timeout_s: float,
    is_wanted: Callable[[], bool] = lambda: True,
    *,
    sure_after_s: float = _SURE_AFTER_S,
    clock: Clock = _CLOCK,
) -> None:
    """Return when a broker answers, or when the caller no longer wants to wait.

    Args:
        settings: The client's; those that concern consuming alone are left out.
        timeout_s: The longest wait.
        is_wanted: Called repeatedly; False ends the wait, as after a signal.
        sure_after_s: How long a permanent cause has to last before it is reported.
        clock: Tells when the time is over.

    Raises:
        InvalidRequestError: A setting, name or credential keeps every broker from answering.
        BrokerUnavailableError: None answered in time.
    """
    heard = _Heard()
    with translated("connecting to Kafka"):
        client = _library.AdminClient({**admin_settings(settings), **heard.listening()})
    began_s = clock.monotonic_s()
    while is_wanted():
        try:
            client.list_topics(timeout=_LOOK_EVERY_S)
        except KafkaException:
            client.poll(0)
        else:
            return
        waited_s = clock.monotonic_s() - began_s
        if waited_s < min(sure_after_s, timeout_s):
            continue
        heard.look_closer(str(settings.get("security.protocol", "plaintext")))
        if waited_s >= timeout_s or heard.is_hopeless:
            servers = settings.get("bootstrap.servers") or settings.get("metadata.broker.list")
            raise heard.verdict(str(servers), waited_s, settings.get(_TOKENS_FROM))


class _Heard:
    """What a client reported for each address: the latest cause, in its first words."""

    def __init__(self) -> None:
        self._causes: dict[str, tuple[_Cause, str]] = {}
        self._is_looked_at: set[str] = set()

    def listening(self) -> dict[str, object]:
        """Return the settings that make a client tell us."""
        logger = logging.Logger(f"{LOGGER_NAME}.start")  # noqa: LOG001 - this one client's
        logger.addHandler(_Lines(self._note_line))
        return {"error_cb": self._note_error, "logger": logger}

    @property
    def is_hopeless(self) -> bool:
        """Whether all causes are permanent."""
        return bool(self._causes) and not any(cause.may_pass for cause, _ in self._causes.values())

    def look_closer(self, protocol: str) -> None:
        """Find out whether a listener that hangs up on a plain client speaks TLS, once each."""
        if "ssl" in protocol.lower():
            return
        for address, (cause, text) in self._causes.items():
            if cause is _HANGS_UP and address not in self._is_looked_at:
                self._is_looked_at.add(address)
                if speaks_tls(address):
                    self._causes[address] = (_TLS_LISTENER, text)

    def verdict(self, servers: str, waited_s: float, tokens_from: object = None) -> ShardlogError:
        """Return the error for the causes; permanent ones come first."""
        if not self._causes:
            message = (
                f"no broker at {servers} answers within {waited_s:.0f} s, and none refuses: check "
                "host and port, firewalls, and that the listener speaks kafka.security.protocol"
            )
            if tokens_from is not None:
                # NOTE: librdkafka (2.16) waits 20 s for it, and says nothing meanwhile.
                message += f"; or {line_without_secrets(str(tokens_from))} returns no token"
            return BrokerUnavailableError(message)
        ranked = sorted(self._causes.values(), key=lambda entry: entry[0].may_pass)
        (cause, text), others = ranked[0], len(ranked) - 1
        more = f" ({others} more of {servers} fail too)" if others else ""
        message = f"no broker can be reached: {text}; {cause.remedy}{more}"
        if self.is_hopeless:
            return InvalidRequestError(message)
        return BrokerUnavailableError(message)

    def _note_error(self, error: KafkaError) -> None:
        self._note(error.code(), error.str())

    def _note_line(self, line: str) -> None:
        # FAIL [shardlog-admin#producer-1] [thrd:...]: host:port/bootstrap: what happened
        self._note(None, line.rpartition("]: ")[2])

    def _note(self, code: int | None, text: str) -> None:
        for cause in _CAUSES:
            if code in cause.codes or any(words in text for words in cause.words):
                # [protocol://]host:port[/bootstrap]: what happened (after 3ms in state ...)
                where, _, event = text.partition(": ")
                address = where.removesuffix("/bootstrap").rpartition("//")[2]
                cause_before, _ = self._causes.get(address, (None, ""))
                if cause_before is not cause and not (
                    cause_before is _TLS_LISTENER and cause is _HANGS_UP
                ):
                    self._causes[address] = (cause, f"{address}: {event.partition(' (after ')[0]}")
                return


def speaks_tls(address: str) -> bool:
    """Tell whether who listens at host:port answers a TLS greeting, whatever its certificate."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), _LOOK_CLOSER_S) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except ssl.SSLError as error:
        # It speaks TLS, but wants a certificate of ours, or another version.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


class _Lines(logging.Handler):
    """Hands librdkafka's lines on."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Hand one line on."""
        self._note(record.getMessage())
