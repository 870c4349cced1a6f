"""Read requests: what goes to JSON comes back, and what has no meaning is refused by name."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import InvalidRequestError, ReadRequest
from storage_core.format.keys import INT64_MAX
from storage_core.format.row_columns import COLUMNS
from storage_core.read.request import LatestBy, Order
from tests.unit.storage_core.strategies import addresses_one, few, int32s, int64s, uint16s


@st.composite
def requests(draw: st.DrawFn) -> ReadRequest:
    start, end = sorted(draw(st.tuples(int64s, int64s)))
    addresses = sorted(draw(st.tuples(addresses_one, addresses_one)))
    order = draw(st.sampled_from(get_args(Order)))
    by = draw(st.sampled_from([None, *get_args(LatestBy)])) if order == "primary" else None
    return ReadRequest(
        draw(st.integers(0, 4095)),
        draw(st.sampled_from([None, addresses[0]])),
        draw(st.sampled_from([None, addresses[1]])),
        start,
        end,
        draw(st.none() | st.lists(int32s).map(tuple)),
        draw(st.none() | st.lists(uint16s).map(tuple)),
        draw(st.none() | st.lists(st.sampled_from(COLUMNS)).map(tuple)),
        order,
        draw(st.integers(0, INT64_MAX)),
        latest_by=by,
        tombstones=draw(st.booleans()),
        bytes_max=draw(st.integers(0, INT64_MAX)),
        keys=draw(st.none() | st.lists(st.none() | st.binary(max_size=4)).map(tuple)),
    )


@few
@given(requests())
def test_request_comes_back(request):
    assert ReadRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"start": 2, "end": 1}, "start 2 is above end 1"),
        ({"limit": -1}, "limit -1"),
        ({"start": -(2**63) - 1}, "64-bit"),
        ({"end": 2**63}, "64-bit"),
        ({"ids": (2**31,)}, "ids are 32-bit"),
        ({"ids": (1, -(2**31) - 1)}, "ids are 32-bit"),
        ({"versions": (2**16,)}, "versions are 16-bit"),
        ({"versions": (-1,)}, "versions are 16-bit"),
        ({"start_address": -1}, "must not be negative"),
        ({"end_address": -1}, "must not be negative"),
        ({"start_address": 2, "end_address": 1}, "start address 2 is above end 1"),
        ({"columns": ("payload", "colour")}, "unknown columns colour"),
        ({"order": "sideways"}, "order 'sideways'"),
        ({"start": 0.5}, "integers"),
        ({"ids": (1.5,)}, "integers"),
        ({"ids": ("1",)}, "integers"),
        ({"limit": 0.5}, "integers"),
        ({"shard": "0"}, "integers"),
        ({"start_address": 1.0}, "integers"),
        ({"bytes_max": -1}, "bytes_max -1"),
        ({"bytes_max": "1"}, "integers"),
        ({"latest_by": "address", "order": "primary"}, "latest_by 'address'"),
        ({"latest_by": "key"}, "latest_by goes with order primary"),
        ({"tombstones": 1}, "tombstones 1"),
    ],
)
def test_request_without_meaning_is_refused_by_name(fields, named):
    with pytest.raises(InvalidRequestError, match=named):
        ReadRequest(**{"shard": 0, **fields})
    with pytest.raises(InvalidRequestError, match=named):
        ReadRequest.from_json(json.dumps({"shard": 0, **fields}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        "{}",
        '{"shard": 0, "colour": 1}',
        '{"shard": 0, "ids": 5}',
        '{"shard": 0, "keys": 5}',
        '{"shard": 0, "keys": ["no base64"]}',
        "[" * 10**5,
        '{"shard": 0, "start": NaN}',
    ],
)
def test_text_that_is_no_request_is_refused(text):
    with pytest.raises(InvalidRequestError):
        ReadRequest.from_json(text)
