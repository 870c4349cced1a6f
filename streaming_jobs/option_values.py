"""Options as Spark hands them over, texts under names in any case, read one by one.

A name that nobody asked for is an error when all are read, so that a misspelt option is never
ignored. `kafka.*` is for Kafka's own source: it may stay in a job that moved, and does nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

from storage_core import InvalidRequestError

_T = TypeVar("_T", bound=str)
_FOREIGN: Final = "kafka."
_TRUTHS: Final = {"true": True, "false": False}
_SUFFIXES_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


class OptionValues:
    """Options by name, each with the type it is asked for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take options whose names may be in any case."""
        self._values = {name.lower(): value for name, value in options.items()}
        self._asked: dict[str, str] = {}

    @property
    def foreign(self) -> list[str]:
        """Names of options that are for Kafka's source."""
        return sorted(name for name in self._values if name.startswith(_FOREIGN))

    def has(self, name: str) -> bool:
        """Tell whether an option was given."""
        return self.text(name) is not None

    def text(self, name: str) -> str | None:
        """Return a text, or None if it was not given."""
        self._asked[name.lower()] = name
        return self._values.get(name.lower())

    def truth(self, name: str, *, default: bool) -> bool:
        """Return `true` or `false`."""
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in _TRUTHS:
            refuse(name, text, "true or false")
        return _TRUTHS[text.strip().lower()]

    def whole(self, name: str, least: int = INT64_MIN, most: int = INT64_MAX) -> int | None:
        """Return a whole number of a range, or None if it was not given."""
        text = self.text(name)
        if text is None:
            return None
        number = whole_number(text)
        if number is None or not least <= number <= most:
            wanted = "a whole number" if least == INT64_MIN else f"a whole number from {least}"
            refuse(name, text, wanted)
        return number

    def span_ms(self, name: str, default: int) -> int:
        """Return a span of time in milliseconds: `90s`, `15m`, `500ms`, or bare milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
        suffix = text.strip()[len(digits) :] or "ms"
        number = whole_number(digits)
        if number is None or number < 0 or suffix not in _SUFFIXES_MS:
            refuse(name, text, "a span of time like 500ms, 90s, 15m, 1h")
        return number * _SUFFIXES_MS[suffix]

    def directory(self, name: str) -> str | None:
        """Return a directory of this machine, given as a path or a `file:` URI."""
        text = self.text(name)
        if text is None or not ("://" in text or text.startswith("file:")):
            return text
        place = urlsplit(text)
        if place.scheme != "file" or place.netloc:
            refuse(name, text, "a directory of this machine")
        return unquote(place.path)

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
        """Return names that commas part, or None if the option was not given."""
        text = self.text(name)
        if text is None:
            return None
        found = tuple(part.strip() for part in text.split(","))
        if not all(found) or len(set(found)) != len(found):
            refuse(name, text, "different names parted by commas")
        return found

    def document(self, name: str, wanted: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Return what a JSON text holds, or None if the option was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            refuse(name, text, wanted)

    def refuse_unknown(self) -> None:
        """Raise if there is an option that nobody asked for."""
        given = set(self._values) - set(self.foreign)
        unknown = sorted(given - set(self._asked))
        if unknown:
            known = ", ".join(sorted(self._asked.values(), key=str.lower))
            message = f"unknown option {', '.join(unknown)}; there are {known}"
            raise InvalidRequestError(message)


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
    shown = text if len(text) <= 100 else f"{text[:80]}…"  # noqa: PLR2004 - one line
    message = f"option {name}: {shown!r} is not {wanted}"
    raise InvalidRequestError(message)
