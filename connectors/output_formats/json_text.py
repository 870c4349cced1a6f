"""Values as JSON: text as it is, what could command a terminal escaped."""

import json
import re
from typing import Final

# Beside those that JSON escapes by itself: the other control characters, what ends a line or turns
# the direction of writing, and halves of characters, which no encoding has.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, in one line unless parts of it are to be indented."""
    return _ESCAPED.sub(_escape, json.dumps(value, ensure_ascii=False, indent=indent))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
