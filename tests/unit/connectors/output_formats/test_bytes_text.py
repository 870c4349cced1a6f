"""Bytes as text: the columns say what a decoder of Python says of each value."""

import base64
import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors.output_formats.bytes_text import encoded_bytes, encoded_text

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
values = st.lists(
    st.none() | st.binary() | st.text().map(lambda one: one.encode("utf-8", "replace"))
)


def one_by_one(value):
    return (None, None) if value is None else encoded_text(value)


def encoded(column, **options):
    text, encoding = encoded_bytes(column, **options)
    text.validate(full=True)
    return list(zip(text.to_pylist(), encoding.to_pylist(), strict=True))


@given(values, st.integers(0, 3))
def test_each_value_is_told_as_alone_also_in_a_slice(drawn, begin):
    column = pa.array(drawn, pa.binary()).slice(begin)
    assert encoded(column) == [one_by_one(value) for value in drawn[begin:]]


@given(values)
def test_a_column_of_numbers_is_base64_throughout(drawn):
    expected = [None if one is None else base64.b64encode(one).decode() for one in drawn]
    pairs = encoded(pa.array(drawn, pa.binary()), is_base64=True)
    assert [text for text, _ in pairs] == expected
    assert {encoding for _, encoding in pairs} <= {"base64", None}


def test_every_code_point_is_text_but_controls():
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    column = pa.array([chr(point).encode() for point in points])
    _, encoding = encoded_bytes(column)
    others = {
        point for point, form in zip(points, encoding.to_pylist(), strict=True) if form == "base64"
    }
    assert others == {point for point in points if CONTROL.match(chr(point))}
