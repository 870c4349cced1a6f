"""Parses texts of arguments: keys, columns, times, settings.

Invalid texts raise `InvalidRequestError`.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

from connectors.settings.moments import EXAMPLE, microseconds_of
from storage_core import (
    INT64_MAX,
    INT64_MIN,
    UNITS_PER_SECOND,
    InvalidRequestError,
    Unit,
)

Bound = Literal["--start", "--end", "--since", "--until", "--to-datetime"]

_BEGINS: Final = ("--start", "--since", "--to-datetime")


def keys_of(
    texts: Iterable[str] | None, hexes: Iterable[str] | None, *, null_key: bool = False
) -> list[bytes | None] | None:
    """Return the keys that `--key`, `--key-hex` and `--null-key` name; None if none is named."""
    # Arguments from the shell may be bytes that are not UTF-8.
    keys: list[bytes | None] = [text.encode(errors="surrogateescape") for text in texts or ()]
    for digits in hexes or ():
        try:
            keys.append(bytes.fromhex(digits))
        except ValueError as error:
            message = f"--key-hex {digits!r}: give pairs of hexadecimal digits"
            raise InvalidRequestError(message) from error
    return keys + [None] * null_key or None


def column_names(text: str | None) -> list[str] | None:
    """Return the names in a text with commas between them."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names or len(set(names)) != len(names):
        message = f"--columns {text!r}: give each column once, with commas between"
        raise InvalidRequestError(message)
    return names


def kafka_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """Return the settings written as KEY=VALUE."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            # The rest may be a value, a secret.
            name_part = re.split(r"[^\w.-]", pair, maxsplit=1)[0]
            message = f"--kafka {name_part}...: write KEY=VALUE"
            raise InvalidRequestError(message)
        settings[name.strip()] = value
    return settings


def primary_bound(option: Bound, text: str | None, unit: Unit) -> int | None:
    """Return the least primary at or after a begin, or the largest at or before an end."""
    if text is None:
        return None
    try:
        primary = int(text)
    except ValueError:
        primary = _primary_of_time(option, text, unit, is_least=option in _BEGINS)
    if not INT64_MIN <= primary <= INT64_MAX:
        message = (
            f"{option} {text!r}: outside what a primary can be, from {INT64_MIN} to {INT64_MAX}"
        )
        raise InvalidRequestError(message)
    return primary


def _primary_of_time(option: str, text: str, unit: Unit, *, is_least: bool) -> int:
    if unit not in UNITS_PER_SECOND:
        message = f"{option} {text!r}: this stream's primaries are numbers; give an integer"
        raise InvalidRequestError(message)
    try:
        scaled = microseconds_of(text) * UNITS_PER_SECOND[unit]
    except ValueError as error:
        message = f"{option} {text!r}: give an integer, or a time such as {EXAMPLE}"
        raise InvalidRequestError(message) from error
    return -(-scaled // 10**6) if is_least else scaled // 10**6
