"""One request to a registry over HTTP: retried where that may help, each wait bounded.

Exceptions of the HTTP library and invalid answers become errors of ours. A request is retried if no
registry received it or could answer it then: no connection, no answer in time,
408, 429, 502, 503, 504, 500. Everything else stays as it is, however often it is asked. All the
questions are safe to ask twice: to register what is registered changes nothing.

A question has one bound over all its attempts and addresses (`RegistrySettings.question_s_max`),
and each address its share of what is left: one that accepts and says nothing, or a byte now and
then (timed_http.py), keeps no other from its turn.
"""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException, IncompleteRead
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request

from connectors.registry.errors import (
    IncompatibleSchemaError,
    NoSuchPathError,
    RegistryRefusedError,
    RegistryUnavailableError,
    SchemaNotFoundError,
)
from connectors.registry.settings import RegistrySettings
from connectors.registry.timed_http import timed_opener
from storage_core import Clock, InvalidRequestError, ShardlogError, SystemClock

Method = Literal["GET", "POST", "PUT"]

_HEADERS: Final = {"Accept": "application/vnd.schemaregistry.v1+json, application/json;q=0.9"}
_SENT: Final = "application/vnd.schemaregistry.v1+json"
_ANSWER_BYTES_MAX: Final = 16 * 2**20
_READ_BYTES: Final = 64 * 2**10
# What an address has at least where those before it have used the time up.
_ATTEMPT_S_MIN: Final = 0.001
_SAID_MAX: Final = 300
_AGAIN: Final = frozenset((408, 429, 500, 502, 503, 504))
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_NOT_FOUND, _CONFLICT = 404, 409
_LEADS: Final = "does the url lead to a registry, its path included?"
_WANTS_CERTIFICATE: Final = "it may want a certificate, see ssl.certificate.location"
# How a connection that stood ends unasked.
_CUT: Final = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_ADVICE: Final = {
    401: "the credentials are wrong or missing, see basic.auth.user.info",
    403: "these credentials are not authorised",
    404: _LEADS,
}
# What a registry says of itself, besides what HTTP says: 40401, a subject is not there, and so on.
_CODES_OF_NOT_FOUND: Final = range(40_400, 40_500)


class Exchange:
    """Asks a registry. Any thread may call."""

    def __init__(
        self,
        settings: RegistrySettings,
        clock: Clock | None = None,
        question_s_max: float | None = None,
    ) -> None:
        """Ask the registry of these settings; nothing is asked yet.

        Args:
            settings: How it is reached.
            clock: Whose time it is.
            question_s_max: How long a question may take, where that is less than by the settings.

        Raises:
            InvalidRequestError: A certificate or key cannot be used.
        """
        self._settings = settings
        self._clock = SystemClock() if clock is None else clock
        most_s = settings.question_s_max
        self._question_s_max = most_s if question_s_max is None else min(question_s_max, most_s)
        self._context = _tls(settings)
        self._authorization = _authorization(settings)

    @property
    def place(self) -> str:
        """The registry's address, as people are told it."""
        return ", ".join(self._settings.urls)

    def ask(
        self, question: str, path: str, body: object = None, *, method: Method | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        """Return the answer, as JSON has it.

        Args:
            question: What is asked for, as people are told it.
            path: What is asked for, below the registry's address.
            body: What is sent.
            method: Of HTTP; without it a POST where something is sent, otherwise a GET.

        Raises:
            RegistryUnavailableError: No answer, however often it was asked.
            SchemaNotFoundError: What was asked for is not there.
            IncompatibleSchemaError: The schema is incompatible.
            RegistryRefusedError: The answer is another no.
        """
        until_s = self._clock.monotonic_s() + self._question_s_max
        wait_s = self._settings.retry_wait_s
        failures: dict[str, ShardlogError] = {}
        attempts = 0
        while attempts <= self._settings.retries_max:
            if attempts:
                pause_s = min(wait_s, self._settings.retry_wait_s_max)
                if self._clock.monotonic_s() + pause_s >= until_s:
                    break
                self._clock.sleep(pause_s)
                wait_s *= 2
            attempts += 1
            for position, url in enumerate(self._settings.urls):
                share_s = self._share_of(until_s, len(self._settings.urls) - position)
                try:
                    with _translated(url, question):
                        return self._answer(url, path, body, method, share_s)
                except RegistryUnavailableError as error:
                    failures[url] = error
        times = "once" if attempts == 1 else f"{attempts} times"
        # Each address has its own reason.
        message = f"{'; '.join(map(str, failures.values()))}; asked {times}"
        raise RegistryUnavailableError(message) from next(reversed(failures.values()))

    def _share_of(self, until_s: float, addresses: int) -> float:
        """Return how long the next of so many addresses may take, so that each has its turn."""
        left_s = (until_s - self._clock.monotonic_s()) / addresses
        return max(min(self._settings.timeout_s, left_s), _ATTEMPT_S_MIN)

    def _answer(
        self, url: str, path: str, body: object, method: Method | None, within_s: float
    ) -> Any:  # noqa: ANN401 - as above
        sent = None if body is None else json.dumps(body).encode()
        request = Request(f"{url}{path}", data=sent, headers=_HEADERS, method=method)  # noqa: S310 - settings let http and https in alone
        if sent is not None:
            request.add_header("Content-Type", _SENT)
        if self._authorization is not None:
            # Not for another place that an answer may lead to.
            request.add_unredirected_header("Authorization", self._authorization)
        left_s = partial(self._left_until, self._clock.monotonic_s() + within_s)
        # A proxy for what is far away must not be asked for what is near.
        proxies = (ProxyHandler({}),) if _is_near(url) else ()
        opener = timed_opener(self._context, left_s, *proxies)
        with opener.open(request, timeout=within_s) as response:
            answer = response.read(_ANSWER_BYTES_MAX + 1)
            if len(answer) > _ANSWER_BYTES_MAX:
                message = f"an answer of more than {_ANSWER_BYTES_MAX} bytes"
                raise _NoRegistryError(message)
            if response.length:
                # NOTE: http.client (3.11) takes an answer that was cut short for a whole one.
                raise IncompleteRead(answer, response.length)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            message = "the answer is not JSON"
            raise _NoRegistryError(message) from error

    def _left_until(self, until_s: float) -> float:
        left_s = until_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise TimeoutError
        return left_s


class _NoRegistryError(Exception):
    """What answers does not answer like a registry."""


@contextmanager
def _translated(url: str, question: str) -> Iterator[None]:
    """Let what goes wrong inside leave as an error of ours."""
    about = f"schema registry {url}: {question}"
    try:
        yield
    except HTTPError as error:
        with error:
            raise _of_answer(error, about) from error
    except _NoRegistryError as error:
        message = f"{about}: {error}; {_LEADS}"
        raise RegistryRefusedError(message) from error
    except ValueError:
        # NOTE: so http.client and urllib refuse names, headers and proxies, and show them whole,
        # with whatever is secret in them: neither the text nor the traceback may be told.
        message = (
            f"{about}: no HTTP request is possible; see the url, and proxies in the environment"
        )
        raise RegistryRefusedError(message) from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = _one_line(reason.verify_message)
            message = f"{about}: its certificate is not trusted: {why}; set ssl.ca.location"
            raise RegistryRefusedError(message) from error
        if isinstance(reason, ssl.SSLError) and "ALERT" in (reason.reason or ""):
            why = _one_line(reason.reason)
            message = f"{about}: it refuses our TLS: {why}; {_WANTS_CERTIFICATE}"
            raise RegistryRefusedError(message) from error
        text = "no answer in time" if isinstance(reason, TimeoutError) else _one_line(reason)
        message = f"{about}: {text or type(reason).__name__}"
        if url.startswith("https:") and isinstance(reason, _CUT):
            # NOTE: of TLS 1.3 the refusal of a client without certificate may come after its end.
            message += f"; {_WANTS_CERTIFICATE}"
        raise RegistryUnavailableError(message) from error


def _of_answer(error: HTTPError, about: str) -> ShardlogError:
    """Return the error that an answer other than yes stands for."""
    code, said = _said(error)
    status = error.code
    if status in _REDIRECTS:
        return RegistryRefusedError(
            f"{about}: redirects to no answer: HTTP {status} {said}; {_LEADS}"
        )
    if status in _AGAIN:
        return RegistryUnavailableError(f"{about}: HTTP {status} {said}")
    if status == _NOT_FOUND and code in _CODES_OF_NOT_FOUND:
        return SchemaNotFoundError(f"{about}: not there: {said}")
    if status == _CONFLICT:
        return IncompatibleSchemaError(f"{about}: incompatible: {said}")
    advice = _ADVICE.get(status)
    kind = NoSuchPathError if status == _NOT_FOUND else RegistryRefusedError
    return kind(f"{about}: refused: HTTP {status} {said}" + (f"; {advice}" if advice else ""))


def _said(error: HTTPError) -> tuple[int, str]:
    """Return the code and the words of a registry's no, in one line."""
    try:
        body = error.read(_READ_BYTES)
    except (OSError, HTTPException):
        return 0, _one_line(error.reason)
    try:
        parsed = json.loads(body)
        code, text = int(parsed["error_code"]), str(parsed["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0, _one_line(error.reason)
    return code, _one_line(text)


def _one_line(text: object) -> str:
    """Return what others said as the one line that it is told in."""
    line = " ".join(str(text).split())
    return line if len(line) <= _SAID_MAX else f"{line[:_SAID_MAX]}..."


def _is_near(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _authorization(settings: RegistrySettings) -> str | None:
    if settings.token is not None:
        return f"Bearer {settings.token}"
    if settings.user_info is not None:
        return f"Basic {base64.b64encode(settings.user_info.encode()).decode()}"
    return None


def _tls(settings: RegistrySettings) -> ssl.SSLContext:
    """Return whom we trust and who we are."""
    place = settings.ca
    try:
        if place is not None and Path(place).is_dir():
            context = ssl.create_default_context(capath=place)
        else:
            context = ssl.create_default_context(cafile=place)
    except (OSError, ValueError) as error:
        message = f"schema.registry: ssl.ca.location: {place}: {_why(error)}"
        raise InvalidRequestError(message) from error
    if settings.certificate is not None:
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            password = settings.key_password or ""
            context.load_cert_chain(settings.certificate, settings.key, password)
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (settings.certificate, settings.key)))
            message = f"schema.registry: ssl.certificate.location: {files}: {_why(error)}"
            raise InvalidRequestError(message) from error
    return context


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"cannot be used: {error.reason or 'wrong password, or no certificate and key'}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
