"""STORE lines, read without the parser: a pattern for what is around the payload, `json` for it.

What is read here the grammar reads alike. All else is left to the grammar, which also knows what
is wrong: so a line is refused in the same words whichever way it went.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

from typed_events.language.commands import Batch, Expect, Store

_CONTEXT_BYTES_MAX: Final = 1024
_VERSION_MAX: Final = 2**16 - 1
# The words are the grammar's WORD, and names that its TYPE has; a string is one without escapes.
_END: Final = r"(?![\w\-.:@/+])"
_HEAD: Final = re.compile(
    r"[ \t\r\n]*(?i:STORE)[ \t\r\n]+([A-Za-z0-9_][A-Za-z0-9_\-.]{0,248}+)[ \t\r\n]+"
    rf"(?:(?i:AS)[ \t\r\n]+([0-9]{{1,5}}){_END}[ \t\r\n]+)?"
    r'(?i:FOR)[ \t\r\n]+(?:([\w@/][\w\-.:@/+]*+)|"([^"\\\x00-\x1f]*+)")'
    rf'(?:[ \t\r\n]+(?i:ROW)[ \t\r\n]+(?:([\w@/][\w\-.:@/+]*+)|"([^"\\\x00-\x1f]*+)"))?'
    rf"[ \t\r\n]+(?i:PAYLOAD){_END}[ \t\r\n]*(?={{)"
)
_KEY: Final = (
    rf'(?i:IDEMPOTENCY){_END}[ \t\r\n]*(?:([\w@/][\w\-.:@/+]*+)|"([^"\\\x00-\x1f]*+)")[ \t\r\n]*'
)
_EXPECT: Final = rf"(?i:EXPECT)[ \t\r\n]+(?:([0-9]{{1,18}})|((?i:NONE))|(?i:ANY)){_END}[ \t\r\n]*"
_TAIL: Final = re.compile(rf"[ \t\r\n]*(?:{_KEY})?(?:{_EXPECT})?(?:([;\]])|\Z)")
_BATCH: Final = re.compile(rf"[ \t\r\n]*(?i:BATCH){_END}[ \t\r\n]*\[")
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_AFTER: Final = re.compile(r"[ \t\r\n]*(?:;|\Z)")
_INFINITE: Final = frozenset({math.inf, -math.inf})
_FLAT: Final = frozenset({str, int, float, bool, type(None)})


class _NotPlainError(ValueError):
    """The payload is one that the grammar has to judge."""


def _refuse(_: str) -> NoReturn:
    raise _NotPlainError


_pairs: Final = json.JSONDecoder(object_pairs_hook=list)
# The stubs lack it: it reads one value that begins at a place.
_scan: Final[Callable[[str, int], tuple[Any, int]]] = vars(
    json.JSONDecoder(parse_constant=_refuse)
)["scan_once"]


def plain_store(text: str, start: int, bytes_max: int) -> tuple[Store, int] | None:
    """Return the STORE that begins at a place, and where the next command may.

    None where there is no STORE, or one that is not plain.
    """
    read = _store(text, start, bytes_max)
    if read is None or read[2] == "]":
        return None
    return read[0], read[1]


def plain_batch(text: str, start: int, bytes_max: int) -> tuple[Batch, int] | None:
    """Return the BATCH of plain STOREs that begins at a place, and where the next command may."""
    head = _BATCH.match(text, start)
    if head is None:
        return None
    stores, place = [], head.end()
    while True:
        read = _store(text, place, bytes_max)
        if read is None:
            return None
        store, place, mark = read
        stores.append(store)
        if mark == ";":
            blank = cast("re.Match[str]", _BLANK.match(text, place))
            if not text.startswith("]", blank.end()):
                continue
            place, mark = blank.end() + 1, "]"
        after = _AFTER.match(text, place)
        if mark != "]" or after is None or not _fits(text, start, after.end(), bytes_max):
            return None
        return Batch(tuple(stores)), after.end()


def _store(text: str, start: int, bytes_max: int) -> tuple[Store, int, str | None] | None:
    head = _HEAD.match(text, start)
    if head is None:
        return None
    event_type, version, word, quoted, row_word, row_quoted = head.groups()
    begin = head.end()
    try:
        payload, payload_end = _scan(text, begin)
    except (ValueError, RecursionError, StopIteration):
        return None
    tail = _TAIL.match(text, payload_end)
    if tail is None or not _is_flat(payload, text, begin, payload_end):
        return None
    end = tail.end()
    key_word, key_quoted, expected, none, mark = tail.groups()
    context = quoted if word is None else word
    key = key_quoted if key_word is None else key_word
    row = row_quoted if row_word is None else row_word
    number = None if version is None else int(version)
    if not (
        _fits(text, start, end, bytes_max)
        and _is_short(context)
        and (key is None or _is_short(key))
        and (not row or _is_short(row))
        and (number is None or 1 <= number <= _VERSION_MAX)
    ):
        return None
    expect: Expect = 0 if none else "any" if expected is None else int(expected)
    return Store(event_type, context, payload, number, key, expect, row), end, mark


def _is_flat(payload: dict[str, Any], text: str, begin: int, end: int) -> bool:
    """Tell whether an object has values that the grammar reads alike, and each name once.

    Args:
        payload: What was read of it.
        text: Where it was written.
        begin: At this place.
        end: Up to this one.
    """
    values = payload.values()
    kinds = list(map(type, values))
    if not _FLAT.issuperset(kinds):
        return False
    if float in kinds and not _INFINITE.isdisjoint(values):
        return False
    if text.find("\\", begin, end) < 0:
        # Each name and each text has two quotes: a name that came twice has left two too many.
        return text.count('"', begin, end) == 2 * (len(kinds) + kinds.count(str))
    try:
        pairs, _ = _pairs.raw_decode(text, begin)
    except RecursionError:
        return False
    return len(pairs) == len(payload) and _is_unicode(payload)


def _is_short(text: str) -> bool:
    size = len(text) if text.isascii() else len(text.encode())
    return 1 <= size <= _CONTEXT_BYTES_MAX


def _fits(text: str, start: int, end: int, bytes_max: int) -> bool:
    """Tell whether a command is of characters, and short enough."""
    if text.isascii():
        return end - start <= bytes_max
    try:
        return len(text[start:end].encode()) <= bytes_max
    except UnicodeEncodeError:
        return False


def _is_unicode(payload: dict[str, Any]) -> bool:
    """Tell whether no text has half of a surrogate pair."""
    texts = [*payload, *(value for value in payload.values() if type(value) is str)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True
