"""Options as Spark hands them over, texts under names in any case, read one by one.

A name that is not known is an error before any value is read, so that a misspelt option is never
ignored. What only Kafka's own source knows, `kafka.*` and a few more, may stay in a job that
moved, and does nothing. A table of Spark's catalog is recognised by its options, since Spark keeps
those from Python sources.
"""

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import unquote

from storage_core import INT64_MAX, INT64_MIN, InvalidRequestError
from storage_core.platform.name_suggestions import did_you_mean
from storage_core.remote.addresses import names_servers, parse_servers, refuse_servers

_T = TypeVar("_T", bound=str)
_D = TypeVar("_D", list[Any], dict[str, Any])
_LOG: Final = logging.getLogger("shardlog")
_IDLE_SETS_MAX: Final = 64
_FOREIGN: Final = "kafka."
_FOREIGN_NAMES: Final = frozenset(
    {
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
    }
)
_FILE_HERE: Final = re.compile(r"file:(?://)?(?P<path>/(?!/).*)")
_NOT_IN_PLANS: Final = (
    "plans and the UI show options; name a file with the token in the environment of driver and "
    "executors, SHARDLOG_SERVER_TOKEN_FILE"
)
_NO_CERTIFICATE: Final = (
    "it is named in the environment of driver and executors, SHARDLOG_SERVER_CA_FILE; TLS is asked "
    "for by shardlogs:// in option server"
)
# What else is asked for where servers may be named.
_BESIDE_SERVER: Final = {
    "servers": "servers are one option, server, with commas between",
    **dict.fromkeys(("token", "tokenfile", "servertoken", "servertokenfile"), _NOT_IN_PLANS),
    **dict.fromkeys(("tls", "ssl", "cafile", "cacert", "certificate"), _NO_CERTIFICATE),
}
# Spark adds it to the options of a table that is being made, and to no others.
_OF_A_TABLE: Final = "provider"
_NO_TABLES: Final = (
    "Spark hands the options of a catalog's table to no Python source: make a view instead, CREATE "
    "TEMPORARY VIEW … USING shardlog OPTIONS (path '…', stream '…'), or give them with each use, "
    "SELECT * FROM … WITH (path = '…', stream = '…', columns = '…') with the table's columns in "
    "its order, INSERT INTO … WITH (path = '…', stream = '…') VALUES …"
)
_NO_OPTIONS: Final = (
    'options path and stream are missing: .option("path", …).option("stream", …); if this is a '
    f"table of the catalog: {_NO_TABLES}"
)
# The options of the source; the sink says of each that it is for reading.
STARTING: Final = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
LIMITS: Final = (
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "availableNow"),
)
FIELD_OPTIONS: Final = ("readerSchema", "mode", "schemaRegistryUrl", "schemaRegistryConfig")
SOURCE_OPTIONS: Final = (
    *("path", "server", "stream", "subscribe", "subscribePattern", "assign"),
    *(*STARTING, *ENDING, "snapshot", *LIMITS, "minPartitions", "maxRecordsPerPartition"),
    *("columns", "includeHeaders", "ids", "keys", "startPrimary", "endPrimary"),
    *("includeLate", "includeExpired", "failOnDataLoss"),
    *("valueFormat", *FIELD_OPTIONS),
)
_SPANS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


class OptionValues:
    """Options by name, each with the type it is asked for."""

    def __init__(
        self,
        options: Mapping[str, str],
        names: Sequence[str],
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Take options whose names may be in any case.

        Args:
            options: As Spark has them.
            names: Names of all options there are.
            instead: What to use in place of options that there are elsewhere, in lower case.

        Raises:
            InvalidRequestError: One is not known, or they are of a table, or there are none.
        """
        self._values = {name.lower(): value for name, value in options.items()}
        self._names = frozenset(names)
        if _OF_A_TABLE in self._values:
            raise InvalidRequestError(_NO_TABLES)
        if not self._values:
            raise InvalidRequestError(_NO_OPTIONS)
        unknown = (
            set(self._values) - {name.lower() for name in names} - set(_foreign_names(options))
        )
        if unknown:
            hints = {**(_BESIDE_SERVER if "server" in names else {}), **(instead or {})}
            raise InvalidRequestError(_unknown(sorted(unknown), hints, names))

    def has(self, name: str) -> bool:
        """Tell whether an option was given."""
        return self.text(name) is not None

    def text(self, name: str) -> str | None:
        """Return a text, or None if it was not given."""
        assert name in self._names, "the constructor takes all options"
        return self._values.get(name.lower())

    def truth(self, name: str, *, default: bool) -> bool:
        """Return `true` or `false`."""
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def whole(self, name: str, least: int = INT64_MIN, most: int = INT64_MAX) -> int | None:
        """Return a whole number of a range, or None if it was not given."""
        text = self.text(name)
        if text is None:
            return None
        number = whole_number(text)
        if number is None or not least <= number <= most:
            refuse(name, text, _whole_wanted(number, least, most))
        return number

    def span(
        self,
        name: str,
        like: str,
        least: timedelta,
        *,
        bare: str = "",
        is_endless: bool = False,
    ) -> timedelta | None:
        """Return a span of time, or None if it was not given.

        Args:
            name: The option.
            like: Spans as an error shows them.
            least: The shortest that may be.
            bare: The unit of a number without one; none may be without if it is empty.
            is_endless: Whether more than a clock can hold is the most that it can, as Kafka's
                largest number of milliseconds is.
        """
        text = self.text(name)
        if text is None:
            return None
        digits = text.strip().rstrip(ascii_lowercase)
        number, unit = whole_number(digits), _SPANS.get(text.strip()[len(digits) :] or bare)
        if number is None or unit is None:
            refuse(name, text, f"a duration like {like}")
        try:
            span = number * unit
        except OverflowError:
            if not is_endless or number < 0:
                refuse(name, text, "a duration that a clock can hold")
            span = timedelta.max
        if span < least:
            refuse(name, text, f"a duration like {like}")
        return span

    def root(self) -> str:
        """Return the root that has to be given: a directory, or the addresses of its servers."""
        servers = self._servers()
        if servers is not None:
            return servers
        path = self.directory("path")
        if not path:
            message = 'option path is missing: the root directory, .option("path", …)'
            if "server" in self._names:
                message += '; or servers over it, .option("server", "host:8085")'
            raise InvalidRequestError(message)
        return path

    def _servers(self) -> str | None:
        """Return the servers that are named in the place of a path."""
        path = self.text("path")
        if "server" not in self._names:
            refuse_servers(path)
            return None
        servers = self.text("server")
        if servers is None:
            return parse_servers(path).text if path and names_servers(path) else None
        if path is not None:
            message = "options path and server name two roots: leave one out"
            raise InvalidRequestError(message)
        return parse_servers(servers).text

    def place(self, also: str) -> tuple[str, str]:
        """Return the root and the name of the stream, which may stand under another option too."""
        path, named, other = self.root(), self.text("stream"), self.text(also)
        if named and other and named != other:
            message = f"options stream {named!r} and {also} {other!r} name different streams"
            raise InvalidRequestError(message)
        if not (named or other):
            message = 'option stream is missing: the name of the stream, .option("stream", …)'
            raise InvalidRequestError(message)
        return path, named or other or ""

    def directory(self, name: str) -> str | None:
        """Return a directory of this machine, given as a path or a `file:` URI."""
        text = self.text(name)
        return text and str(path_here(name, text, "a directory"))

    def choice(self, name: str, choices: Sequence[_T], default: _T) -> _T:
        """Return one of several words."""
        text = self.text(name)
        if text is None:
            return default
        chosen = next((word for word in choices if word == text.strip().lower()), None)
        if chosen is None:
            refuse(name, text, " or ".join(choices))
        return chosen

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return names separated by commas, or None if the option was not given."""
        text = self.text(name)
        if text is None:
            return None
        names = tuple(part.strip() for part in text.split(","))
        if not all(names) or len(set(names)) != len(names):
            refuse(name, text, "different names separated by commas")
        return names

    def document(self, name: str, kind: type[_D], wanted: str) -> _D | None:
        """Return the list or object that a JSON text holds, or None if it was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, kind):
            refuse(name, text, wanted)
        return document


def warn_of_idle_options(
    options: Mapping[str, str], of_whom: str, idle: Iterable[str] = ()
) -> None:
    """Say which options are taken and do nothing: once a process, not with each batch."""
    names = sorted({name.lower() for name in idle} & {name.lower() for name in options})
    names = sorted({*_foreign_names(options), *names})
    if names:
        _warn_once(of_whom, ", ".join(names))


@lru_cache(maxsize=_IDLE_SETS_MAX)
def _warn_once(of_whom: str, names: str) -> None:
    _LOG.warning("options for %s do nothing here: %s", of_whom, names)


def _foreign_names(options: Mapping[str, str]) -> list[str]:
    """Return names of options that are for Kafka's source and sink."""
    names = sorted(name.lower() for name in options)
    return [name for name in names if name.startswith(_FOREIGN) or name in _FOREIGN_NAMES]


def whole_number(value: object) -> int | None:
    """Return a number given as one or as a text, or None if it is none."""
    if type(value) is int:
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 30 else None  # noqa: PLR2004 - far above any number that fits


def refuse(name: str, text: str, wanted: str) -> NoReturn:
    """Raise over an option that has a bad value."""
    message = f"option {name}: {shortened(text)!r} is not {wanted}"
    raise InvalidRequestError(message)


def shortened(text: str) -> str:
    """Return a text that fits into a line of an error."""
    return text if len(text) <= 100 else f"{text[:80]}…"  # noqa: PLR2004 - one line


def path_here(name: str, text: str, kind: str) -> Path:
    """Return the path that an option's text says, which may be a `file:` URI.

    `~` in front is the home directory of whoever runs the driver.

    Raises:
        InvalidRequestError: It is of another machine, or of a home that there is not.
    """
    if "://" in text or text.startswith("file:"):
        place = _FILE_HERE.fullmatch(text.strip())
        if place is None:
            refuse(name, text, f"{kind} of this machine")
        return Path(unquote(place["path"]))
    try:
        return Path(text).expanduser()
    except RuntimeError:
        refuse(name, text, f"{kind}: there is no such home")


def _unknown(names: Sequence[str], instead: Mapping[str, str], options: Collection[str]) -> str:
    hints = [f"unknown option {name}: {instead[name]}" for name in names if name in instead]
    if hints:
        return "; ".join(hints)
    noun = "option" if len(names) == 1 else "options"
    meant = did_you_mean(names, options)
    there_are = ", ".join(sorted(options, key=str.lower))
    return f"unknown {noun} {', '.join(names)}{meant}; there are {there_are}"


def _whole_wanted(number: int | None, least: int, most: int) -> str:
    """Say which whole numbers are taken, without limits that nobody comes near."""
    lower = f" from {least}" if least > INT64_MIN or (number or 0) < least else ""
    upper = f" to {most}" if most < INT64_MAX or (number or 0) > most else ""
    return f"a whole number{lower}{upper}"
