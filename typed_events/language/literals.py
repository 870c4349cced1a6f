"""What a token means: names, texts and numbers, with their bounds."""

import json
import math
import re
from typing import Final, cast

from lark import Token

from storage_core.platform.name_suggestions import likely_name
from typed_events.language.misread import Misread

CONTEXT_BYTES_MAX: Final = 1024
_INT64_MAX: Final = 2**63 - 1
_ENDLESS: Final = frozenset({"nan", "infinity", "inf"})
_SHOWN_MAX: Final = 40
_STREAM: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")
_REMEMBERED: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,199}\Z")


def text_of(token: Token) -> str:
    """Return a name or a value as it was meant: what stands in quotes without them."""
    if token.type != "TEXT":
        return str(token)
    if "\\" not in token:
        return str(token[1:-1])
    text = cast("str", json.loads(token))
    if not _is_unicode(text):
        raise Misread(token, "half of a surrogate pair is no character")
    return text


def type_name(token: Token) -> str:
    """Return the name of a type, which is that of a stream."""
    name = text_of(token)
    if not _STREAM.match(name):
        message = (
            f"{_cut(name)} cannot be the name of a type: it has letters from A to Z, digits, _ - "
            "and ., and at most 249 of them"
        )
        raise Misread(token, message)
    return name


def remembered_name(token: Token) -> str:
    """Return the name of what is remembered."""
    name = text_of(token)
    if not _REMEMBERED.match(name):
        message = (
            f"{_cut(name)} cannot be a name to remember by: it has letters from A to Z, digits, "
            "_ - and ., begins with none of - and ., and is at most 200 long"
        )
        raise Misread(token, message)
    return name


def _cut(name: str) -> str:
    return f'"{name[:_SHOWN_MAX]}…"' if len(name) > _SHOWN_MAX else f'"{name}"'


def short_text(token: Token, role: str) -> str:
    """Return the text of a context or a key, which has bounds."""
    text = text_of(token)
    if not 1 <= len(text.encode()) <= CONTEXT_BYTES_MAX:
        message = f"{role} has 1 to {CONTEXT_BYTES_MAX:,} bytes, not {len(text.encode()):,}"
        raise Misread(token, message)
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_number(token: Token, least: int = 0, most: int = _INT64_MAX) -> int:
    """Return a number without a sign, which has bounds."""
    digits = token.lstrip("0") or "0"
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    if not least <= number <= most:
        raise Misread(token, f"{token[:40]} is not from {least} to {most}")
    return number


def number_of(token: Token) -> int | float:
    """Return a number as Python has it: whole ones exactly, others as the nearest double."""
    if not token.lstrip("-").isdecimal():
        number = float(token)
        if not math.isfinite(number):
            raise Misread(token, f"{token[:40]} is beyond the largest number")
        return number
    try:
        return int(token)
    except ValueError:  # more digits than Python reads
        raise Misread(token, f"a number of {len(token):,} digits is too long") from None


def why_no_json(token: Token) -> str:
    """Return why a bare word is no value of a payload."""
    if token.lstrip("-").lower() in _ENDLESS:
        return f"{token} is no value in JSON"
    meant = likely_name(str(token), ("true", "false", "null"))
    hint = f"; did you mean {meant}?" if meant else ""
    return f"{token[:40]} is no value in JSON: text stands in double quotes{hint}"
