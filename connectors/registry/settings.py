"""Settings of a registry's client, by the names that Confluent's clients have for them.

    url                         one address, or several with commas between; tried in this order
    basic.auth.user.info        user:password; or both in the url
    bearer.auth.token           a token instead
    ssl.ca.location             file or folder of the authorities we trust; the system's otherwise
    ssl.certificate.location    who we are, and with which key
    ssl.key.location
    ssl.key.password
    timeout                     seconds that one attempt may take
    max.retries                 attempts after the first
    retries.wait.ms             before the first of them; twice as long before each next
    retries.max.wait.ms         but no longer

One question, over all its attempts and addresses, takes 15 s at most, or `timeout` where that is
longer, and the waits between the attempts.

An unknown name is an error. What is secret is in no text that these settings give of themselves.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from storage_core import InvalidRequestError

_URL: Final = "url"
_USER: Final = "basic.auth.user.info"
_TOKEN: Final = "bearer.auth.token"  # noqa: S105 - the name of a setting
_CA: Final = "ssl.ca.location"
_CERTIFICATE: Final = "ssl.certificate.location"
_KEY: Final = "ssl.key.location"
_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - as above
_TIMEOUT: Final = "timeout"
_RETRIES: Final = "max.retries"
_WAIT: Final = "retries.wait.ms"
_WAIT_MAX: Final = "retries.max.wait.ms"

_TEXTS: Final = (_URL, _USER, _TOKEN, _CA, _CERTIFICATE, _KEY, _KEY_PASSWORD)
_SECRET: Final = (_USER, _TOKEN, _KEY_PASSWORD)
# By name: the default, the least and the most.
_NUMBERS: Final[Mapping[str, tuple[float, float, float]]] = {
    _TIMEOUT: (10, 0.001, 3600),
    _RETRIES: (3, 0, 100),
    _WAIT: (200, 0, 3_600_000),
    _WAIT_MAX: (5_000, 0, 3_600_000),
}
_QUESTION_S_MAX: Final = 15.0
_MASK: Final = "***"
# Of a configuration file: [schema.registry].
_TABLE: Final = ("schema", "registry")
_SPACE, _DELETE = 0x20, 0x7F


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How a registry is reached; made by `parse`.

    Attributes:
        urls: Where it is, without user or password.
        user_info: `user:password`, None if neither is asked for.
        token: Of a bearer, None as above.
        ca: File or folder of the authorities that are trusted, None for the system's.
        certificate: File of our own certificate, if one is asked for.
        key: File of its key, if it is not in the same.
        key_password: What opens the key.
        timeout_s: How long one attempt may take.
        retries_max: How often it is tried again.
        retry_wait_s: How long before the first time that; each next time twice as long.
        retry_wait_s_max: But no longer.
    """

    urls: tuple[str, ...]
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    retries_max: int = 3
    retry_wait_s: float = 0.2
    retry_wait_s_max: float = 5.0

    @property
    def question_s_max(self) -> float:
        """How long one question may take, over all its attempts and addresses."""
        waits_s = (self.retry_wait_s * 2**count for count in range(self.retries_max))
        pauses_s: float = sum(min(one, self.retry_wait_s_max) for one in waits_s)
        return max(_QUESTION_S_MAX, self.timeout_s) + pauses_s

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Return the settings given by their names.

        Raises:
            InvalidRequestError: A name is unknown, a value none that it can have.
        """
        for name in settings:
            _check_name(name)
        texts = {name: _text(name, settings[name]) for name in _TEXTS if name in settings}
        numbers = {name: _number(name, settings.get(name)) for name in _NUMBERS}
        urls, users = _addresses(texts.get(_URL, ""))
        users += [texts[_USER]] if _USER in texts else []
        if len(set(users)) > 1 or (users and _TOKEN in texts):
            raise _refused(_USER, "credentials are given twice; give one of them")
        if users and ":" not in users[0]:
            raise _refused(_USER, "write user:password")
        # What no header can say; a value that was read from a file may have the end of its line.
        if any(ord(each) < _SPACE or ord(each) == _DELETE for each in "".join(users)):
            raise _refused(_USER, "has a control character, such as a line break; leave it out")
        if not _is_plain(texts.get(_TOKEN, "")):
            raise _refused(_TOKEN, "has a space, a line break or a character that is not ASCII")
        if _CERTIFICATE not in texts and (_KEY in texts or _KEY_PASSWORD in texts):
            raise _refused(_CERTIFICATE, f"is missing; {_KEY} and {_KEY_PASSWORD} are of one")
        return cls(
            urls,
            users[0] if users else None,
            texts.get(_TOKEN),
            texts.get(_CA),
            texts.get(_CERTIFICATE),
            texts.get(_KEY),
            texts.get(_KEY_PASSWORD),
            numbers[_TIMEOUT],
            int(numbers[_RETRIES]),
            numbers[_WAIT] / 1000,
            numbers[_WAIT_MAX] / 1000,
        )


def settings_in_file(config: Path) -> dict[str, object]:
    """Return the settings in the table [schema.registry] of a TOML file, as they stand there.

    Raises:
        InvalidRequestError: The file cannot be read, or has no such table.
    """
    try:
        section: Any = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the configuration cannot be read: {why}"
        raise InvalidRequestError(message, path=config) from error
    for key in _TABLE:
        section = section.get(key, {}) if isinstance(section, dict) else {}
    if not isinstance(section, dict) or not section:
        message = "it has no table [schema.registry]"
        raise InvalidRequestError(message, path=config)
    return dict(section)


def printable_registry_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings by name for people to see, secrets masked.

    Settings that `parse` would refuse are among them, unknown ones masked.
    """
    printable = {name: _MASK if name in _SECRET else settings[name] for name in sorted(settings)}
    if isinstance(url := settings.get(_URL), str):
        printable[_URL] = ",".join(_without_user(one) for one in url.split(","))
    return {
        name: value if name in (*_TEXTS, *_NUMBERS) else _MASK for name, value in printable.items()
    }


def _addresses(url: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the addresses without users, and the users that stood in them."""
    addresses: list[str] = []
    users: list[str] = []
    for address in filter(None, (part.strip() for part in url.split(","))):
        parts = _whole(address)
        if parts.username is not None:
            users.append(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
        addresses.append(_bare(parts).rstrip("/"))
    if not addresses:
        raise _refused(_URL, 'is missing; write url = "http://host:port"')
    return tuple(addresses), users


def _whole(url: str) -> SplitResult:
    message = "write http://host:port or https://host:port, with a path if there is one"
    try:
        parts = urlsplit(url)
        # A port that is none is found by asking for it.
        _ = parts.port
        # Nor is a part of a name that is empty or too long.
        _ = (parts.hostname or "").encode("idna")
    except ValueError as error:
        # What it says may show a password.
        raise _refused(_URL, message) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refused(_URL, message)
    if not _is_plain(_bare(parts)):
        message = "has a space or is not ASCII; write a path with %20, a name as xn--..."
        raise _refused(_URL, message)
    return parts


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _bare(parts: SplitResult) -> str:
    """Return an address without user, query and fragment."""
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _without_user(url: str) -> str:
    try:
        return _bare(urlsplit(url.strip()))
    except ValueError:
        return _MASK


def _check_name(name: str) -> None:
    names = (*_TEXTS, *_NUMBERS)
    if name in names:
        return
    nearest = get_close_matches(name, names, n=1)
    meant = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(names)}"
    raise _refused(name, f"no such setting; {meant}")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refused(name, "takes text that is not empty")
    return value


def _number(name: str, value: object) -> float:
    default, least, most = _NUMBERS[name]
    try:
        number = default if value is None else float(str(value))
    except ValueError:
        number = least - 1
    # Written so that NaN is refused too.
    if isinstance(value, bool) or not least <= number <= most:
        raise _refused(name, f"takes a number from {least:g} to {most:g}")
    return number


def _refused(name: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"schema.registry: {name}: {why}")
