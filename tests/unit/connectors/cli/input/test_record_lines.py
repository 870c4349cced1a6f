"""JSON lines as records: what each field may be, and that a bad line is named."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.cli.input.record_lines import LINE_BYTES_MAX, Outgoing, records_from
from storage_core import InvalidRequestError

texts = st.text(st.characters(codec="utf-8"))


def records_of(*lines: object) -> list[Outgoing]:
    written = (line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return list(records_from(io.BytesIO(b"\n".join(written))))


@given(
    key=st.none() | texts,
    value=st.none() | texts,
    timestamp=st.none() | st.integers(0, 2**53),
    headers=st.none() | st.dictionaries(texts, st.none() | texts),
)
def test_texts_become_their_utf8_and_null_stays_null(key, value, timestamp, headers):
    def encoded(text):
        return None if text is None else text.encode()

    line = {"key": key, "value": value, "timestamp": timestamp, "headers": headers}
    pairs = headers and [(name, encoded(text)) for name, text in headers.items()]
    expected = Outgoing(encoded(key), encoded(value), timestamp, [] if headers == {} else pairs)
    assert records_of(line) == [expected]


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_integer_key_is_four_bytes_big_endian(key):
    (record,) = records_of({"key": key, "value": None})
    assert record.key is not None
    assert (len(record.key), int.from_bytes(record.key, "big", signed=True)) == (4, key)


@given(
    st.recursive(
        st.booleans() | st.integers() | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    ).filter(lambda value: not isinstance(value, str))
)
def test_any_other_value_is_kept_as_compact_json(value):
    (record,) = records_of({"value": value})
    assert record.value is not None
    assert json.loads(record.value) == value
    assert record.value == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_fields_that_are_not_there_are_null():
    assert records_of({"value": ""}) == [Outgoing(None, b"", None, None)]


def test_lines_of_white_space_are_passed_over():
    assert len(records_of({"value": 1}, b"", b"  \t", {"value": 2}, b"")) == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense", "Expecting value"),
        (b"\xff", "decode"),
        (b"[" * 100_000, "nested"),
        (b"[1]", "object"),
        (b"{}", "no value"),
        (b'{"value": 1, "weight": 2}', "weight"),
        (b'{"value": 1, "key": true}', "key"),
        (b'{"value": 1, "key": 2147483648}', "key"),
        (b'{"value": 1, "key": 1.5}', "key"),
        (b'{"value": NaN}', "NaN"),
        (b'{"value": "\\ud800"}', "surrogates"),
        (b'{"value": 1, "timestamp": -1}', "timestamp"),
        (b'{"value": 1, "timestamp": "now"}', "timestamp"),
        (b'{"value": 1, "headers": []}', "headers"),
        (b'{"value": 1, "headers": {"a": 1}}', "headers"),
        (b" " * (LINE_BYTES_MAX + 1), "longer"),
    ],
)
def test_a_bad_line_is_refused_by_its_number_after_those_before_it(line, complaint):
    records = records_from(io.BytesIO(b'{"value": 1}\n\n' + line))
    assert next(records).value == b"1"
    with pytest.raises(InvalidRequestError, match=f"line 3: .*{complaint}"):
        next(records)
