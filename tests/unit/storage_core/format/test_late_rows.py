"""Late records: copied whole, and read back in the order of (window, id, primary, address)."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import late_key
from storage_core.format.late_rows import (
    LateRows,
    decode_late_rows,
    encode_late_rows,
    has_whole_values,
)
from storage_core.format.record import Rows
from storage_core.format.row_columns import ENVELOPE
from storage_core.format.window import WindowScheme
from tests.unit.storage_core.strategies import addresses_of, few, int32_array, int64_array, rows

SCHEME = WindowScheme("ms", "day")
CARRIED = ("payload", *ENVELOPE)


def kept_and_read(given_rows: Rows, states: list[int], addresses: "np.ndarray") -> LateRows:
    """Store rows as late ones and read them in the order of their keys."""
    items = encode_late_rows(given_rows, np.array(states, np.uint8), addresses, SCHEME, 77)
    keys, values = zip(*sorted(items), strict=True)
    return decode_late_rows(list(keys), list(values))


@few
@given(st.data(), rows())
def test_late_rows_come_back_with_all_they_carry(data, given_rows):
    count = len(given_rows)
    addresses = data.draw(addresses_of(count))
    states = data.draw(st.lists(st.integers(1, 2), min_size=count, max_size=count))
    late = kept_and_read(given_rows, states, addresses)
    positions = np.searchsorted(addresses, late.address)
    expected = given_rows.take(positions)
    assert late.secondary.tolist() == expected.secondary.tolist()
    assert late.primary.tolist() == expected.primary.tolist()
    assert set(late.fields["committed_at_ms"].tolist()) == {77}
    assert late.fields["state"].tolist() == [states[place] for place in positions]
    assert {name: late.column(name).to_pylist() for name in CARRIED} == carried(expected)


@few
@given(st.data(), rows())
def test_schemas_of_late_rows_come_back(data, given_rows):
    count = len(given_rows)
    numbers = data.draw(
        st.lists(st.none() | st.integers(0, 2**31 - 1), min_size=count, max_size=count)
    )
    with_numbers = given_rows.with_schemas(pa.array(numbers, pa.int32()))
    late = kept_and_read(with_numbers, [1] * count, np.arange(count))
    assert late.column("schema").to_pylist() == [numbers[at] for at in late.address.tolist()]
    assert {name: late.column(name).to_pylist() for name in CARRIED} == carried(
        given_rows.take(late.address)
    )
    assert has_whole_values(late)


def carried(given_rows: Rows) -> dict[str, list]:
    """Return the carried columns, one that was not given as nulls."""
    nothing = pa.nulls(len(given_rows))
    return {"payload": given_rows.payload.to_pylist()} | {
        name: given_rows.envelope.get(name, nothing).to_pylist() for name in ENVELOPE
    }


@few
@given(st.data(), rows())
def test_key_of_a_late_row_names_its_place(data, given_rows):
    addresses = data.draw(addresses_of(len(given_rows)))
    states = np.ones(len(given_rows), dtype=np.uint8)
    places = zip(
        given_rows.secondary.tolist(),
        given_rows.primary.tolist(),
        addresses.tolist(),
        strict=True,
    )
    assert [key for key, _ in encode_late_rows(given_rows, states, addresses, SCHEME, 0)] == [
        late_key(SCHEME.of(primary), secondary, primary, address)
        for secondary, primary, address in places
    ]


@few
@given(rows())
def test_version_of_a_late_row_comes_back(given_rows):
    count = len(given_rows)
    late = kept_and_read(given_rows, [1] * count, np.arange(count))
    versions = np.zeros(count) if given_rows.version is None else given_rows.version
    assert late.fields["version"].tolist() == versions[late.address].tolist()


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [{"key": "a", "value": None}],
        [{"key": "a", "value": b""}],
        [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}, {"key": "", "value": b"3"}],
        [{"key": "ü" * 100, "value": bytes(300)}],
    ],
    ids=["null", "empty", "null value", "empty value", "repeated", "long"],
)
def test_headers_keep_order_repeats_and_nulls(headers):
    column = pa.array([headers], ENVELOPE["headers"])
    payload = pa.array([b""], pa.binary())
    row = Rows(int32_array([1]), int64_array([2]), None, payload, {"headers": column})
    assert kept_and_read(row, [1], int64_array([0])).column("headers").to_pylist() == [headers]
