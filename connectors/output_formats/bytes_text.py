"""Bytes as text, a value or a column at a time: UTF-8 if they are, else base64, and which.

Text is UTF-8 without control characters other than tab, line feed and carriage return, so that
printing it cannot control a terminal.
"""

import base64
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# NOTE: Arrow matches binary columns byte by byte, so the forms of UTF-8 are spelled out: no
# character twice as long as it need be, no surrogate, none of U+0080 to U+009F.
_TEXT: Final = (
    r"\A(?:[\t\n\r\x20-\x7e]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]"
    r"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    r"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*\z"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_untyped: Any = pa  # the stubs want to know what an array holds
_compute: Any = pc
_Array = Any


def encoded_bytes(column: _Array, *, is_base64: bool = False) -> tuple[_Array, _Array]:
    """Return a binary column as text, and beside it `utf-8`, `base64` or null.

    Args:
        column: An array of binary.
        is_base64: Whether all of it is base64, text or not.
    """
    valid = column.is_valid()
    other = valid if is_base64 else _compute.fill_null(_compute.invert(_are_text(column)), False)  # noqa: FBT003 - Arrow's own
    nothing = _untyped.scalar(None, column.type)
    text = _compute.if_else(other, nothing, column).cast(pa.string())
    encoding = _compute.if_else(other, "base64", "utf-8")
    if other.true_count:
        text = _compute.replace_with_mask(text, other, _base64_column(column.filter(other)))
    return text, _compute.if_else(valid, encoding, _untyped.scalar(None, pa.string()))


def encoded_text(value: bytes, *, is_base64: bool = False) -> tuple[str, str]:
    """Return one value as text, and `utf-8` or `base64`, by the same rule."""
    try:
        text = "\0" if is_base64 else value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROL.search(text) is None:
        return text, "utf-8"
    return base64.b64encode(value).decode(), "base64"


def _are_text(column: _Array) -> _Array:
    """Tell of each of some bytes whether they are text; null of null."""
    return _compute.match_substring_regex(column, _TEXT)


def _base64_column(column: _Array) -> _Array:
    """Return bytes, none of them null, as base64: all at once, each padded to its own end."""
    sizes = _compute.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    begins = np.concatenate(([0], np.cumsum((sizes + 2) // 3 * 3)))
    padded = np.zeros(begins[-1], np.uint8)
    edges = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)[edges[0] : edges[-1]]
    padded[np.repeat(begins[:-1] - (edges[:-1] - edges[0]), sizes) + np.arange(len(data))] = data
    text = np.frombuffer(base64.b64encode(padded.tobytes()), np.uint8).copy()
    ends = begins // 3 * 4
    last = ends[1:][sizes % 3 > 0]
    text[last - 1] = ord("=")
    text[ends[1:][sizes % 3 == 1] - 2] = ord("=")
    places = pa.py_buffer(ends.astype(np.int32).tobytes())
    return _untyped.StringArray.from_buffers(len(column), places, pa.py_buffer(text.tobytes()))
