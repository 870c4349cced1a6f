"""What Hypothesis draws: numbers that like the ends of their range, rows, states, addresses."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from storage_core.format.block import BlockPlace
from storage_core.format.head import encode_heads
from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from storage_core.format.record import Rows
from storage_core.format.row_columns import ENVELOPE
from storage_core.platform.arrow import Array
from tests.examples import examples

few = settings(max_examples=examples(15))
"""Each run draws others, so that a property costs little and is searched again and again."""
many = settings(max_examples=examples(80))
some = settings(max_examples=examples(30))
"""Of what is dear."""

int64s = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-3, 3),
    st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX]),
)
int32s = st.one_of(
    st.integers(INT32_MIN, INT32_MAX),
    st.integers(-3, 3),
    st.sampled_from([INT32_MIN, INT32_MAX]),
)
uint16s = st.integers(0, 2**16 - 1)
addresses_one = st.integers(0, INT64_MAX - 1)
payloads = st.none() | st.binary(max_size=12)
header_lists = st.none() | st.lists(
    # Arrow lets null headers and null keys pass, though their type does not.
    st.none()
    | st.fixed_dictionaries({"key": st.sampled_from(["", "k", "ü", None]), "value": payloads}),
    max_size=2,
)
places = st.builds(BlockPlace, st.binary(min_size=16, max_size=16), st.integers(0, 4095))
_ENVELOPE_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "key": payloads,
    "headers": header_lists,
    "timestamp": st.none() | int64s,
    "timestamp_type": st.none() | st.sampled_from([-1, 0, 1]),
}


def int64_array(values: object) -> npt.NDArray[np.int64]:
    """Return integers as the log keeps primaries and addresses."""
    return np.array(values, dtype=np.int64)


def head_value(*numbers: int) -> bytes:
    """Return what lies under the key of a head: primary, address, last address."""
    _, (value,) = encode_heads(int32_array([0]), int64_array([numbers]))
    return value


def int32_array(values: object) -> npt.NDArray[np.int32]:
    """Return integers as the log keeps secondaries."""
    return np.array(values, dtype=np.int32)


@st.composite
def rows(draw: st.DrawFn, *, count_max: int = 6) -> Rows:
    """Draw rows of one shard, with or without versions and each column of the envelope."""
    count = draw(st.integers(1, count_max))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    versions = draw(st.booleans()) and column(uint16s)
    envelope: dict[str, Array] = {
        name: pa.array(column(values), ENVELOPE[name])
        for name, values in _ENVELOPE_VALUES.items()
        if draw(st.booleans())
    }
    return Rows(
        int32_array(column(int32s)),
        int64_array(column(int64s)),
        np.array(versions, dtype=np.uint16) if versions and any(versions) else None,
        pa.array(column(payloads), pa.binary()),
        envelope,
    )


@st.composite
def states_of(draw: st.DrawFn, count: int, least: int = 0) -> npt.NDArray[np.uint8] | None:
    """Draw a state for each of so many rows; None, as everywhere, where all are normal."""
    states = np.array(
        draw(st.lists(st.integers(least, 3), min_size=count, max_size=count)), dtype=np.uint8
    )
    return states if states.any() else None


@st.composite
def addresses_of(draw: st.DrawFn, count: int) -> npt.NDArray[np.int64]:
    """Draw strictly increasing addresses, dense or with gaps, near zero or near the end."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 7, 2**40]), min_size=count, max_size=count))
    first = draw(st.sampled_from([0, 1, 2**32, 2**62]))
    return int64_array(first + np.cumsum(steps) - steps[0])
