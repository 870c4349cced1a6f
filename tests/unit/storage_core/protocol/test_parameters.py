"""Parameters survive the way as a query and as a body, and what is none of its kind is refused.

Every call of the table is tried with drawn values of each of its parameters.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import INT64_MAX, InvalidRequestError, ReadRequest
from storage_core.protocol import (
    CALLS,
    Parameter,
    call_named,
    decode_body,
    decode_query,
    encode_body,
    encode_query,
    request_values,
)
from tests.unit.storage_core.strategies import few

_TEXTS = st.text(max_size=8).filter(lambda text: text != ",")


def _values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    integers = st.integers(int(parameter.least), min(int(parameter.most), INT64_MAX))
    value = {
        "integer": integers,
        "integers": integers,
        "seconds": st.floats(parameter.least, min(parameter.most, 1e9)),
        "text": st.sampled_from(parameter.choices) if parameter.choices else _TEXTS,
        "texts": _TEXTS,
        "truth": st.booleans(),
        "keys": st.none() | st.binary(max_size=4),
    }[parameter.kind]
    if parameter.kind in ("integers", "texts", "keys"):
        return st.lists(value, max_size=3).map(tuple)
    return value


@st.composite
def _calls(draw: st.DrawFn) -> tuple[tuple[Parameter, ...], dict[str, Any]]:
    call = draw(st.sampled_from(list(CALLS.values())))
    chosen = [one for one in call.parameters if one.is_required or draw(st.booleans())]
    return call.parameters, {one.name: draw(_values_of(one)) for one in chosen}


@few
@given(_calls())
def test_values_come_back_from_a_query_and_from_a_body(
    call: tuple[tuple[Parameter, ...], dict[str, Any]],
) -> None:
    parameters, values = call
    assert decode_query(parameters, encode_query(parameters, values)) == values
    assert decode_body(parameters, encode_body(parameters, values)) == values


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("shard=x", "shard"),
        ("shard=-1", "shard"),
        ("shard=1&shard=2", "shard"),
        ("shard=1&ids=1.5", "ids"),
        ("shard=1&ids=99999999999", "ids"),
        ("shard=1&keys=%25", "keys"),
        ("shard=1&shrad=2", "did you mean"),
        ("", "missing"),
        ("shard", "query"),
        ("shard=%FF", "query"),
    ],
)
def test_bad_query_is_refused_by_name(query: str, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=named):
        decode_query(CALLS["tail"].parameters, query)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b"\xff",
        b'{"shard": true}',
        b'{"shard": 1.0}',
        b'{"shard": 1, "ids": 7}',
        b'{"shard": 1, "ids": [true]}',
        b'{"shard": 1, "keys": [7]}',
        b'{"shard": 1, "columns": [1]}',
        b'{"shard": NaN}',
        b'{"shard": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"shard": 1, "unheard": 1, ' + b'"%s": 1}' % (b"unheard" * 10_000),
    ],
)
def test_bad_body_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        decode_body(CALLS["tail"].parameters, body)


@pytest.mark.parametrize("timeout", ["1e400", "-1e400", "1" + "0" * 400, "NaN", "31", "true"])
def test_time_that_nobody_waits_is_refused(timeout: str) -> None:
    body = f'{{"shard": 0, "address": 0, "timeout": {timeout}}}'
    with pytest.raises(InvalidRequestError, match=r"timeout|number"):
        decode_body(CALLS["wait"].parameters, body.encode())


def test_bound_that_is_told_is_one_that_is_taken() -> None:
    (limit,) = (one for one in CALLS["read"].parameters if one.name == "limit")
    with pytest.raises(InvalidRequestError, match=f"from 0 to {2**63 - 1}$"):
        decode_query((limit,), f"limit={2**63}")
    assert decode_query((limit,), f"limit={2**63 - 1}") == {"limit": 2**63 - 1}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ids": [1] * 1_000_001}, "ids: 1000001 values; 1000000 are the most"),
        ({"columns": ["x" * 8193]}, "columns: 8193 characters; 8192 are the most"),
    ],
)
def test_value_that_is_too_large_is_told_with_its_size(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        decode_body(CALLS["read"].parameters, json.dumps(values).encode())


def test_many_unknown_names_cost_as_little_as_some() -> None:
    body = json.dumps({f"shrad{number}": 1 for number in range(100_000)})
    with pytest.raises(InvalidRequestError, match="did you mean shard") as raised:
        decode_body(CALLS["tail"].parameters, body.encode())
    assert len(str(raised.value)) < 2000
    assert "more" in str(raised.value)


def test_request_of_a_shard_comes_back_whole() -> None:
    request = ReadRequest(
        3, 5, 9, -7, INT64_MAX, (1, -1), (0, 2), ("primary",), "primary", 4, (), "key", True
    )
    parameters = CALLS["scan_shard"].parameters
    values = decode_body(parameters, encode_body(parameters, request_values(request)))
    assert ReadRequest(**values) == request
    assert json.loads(encode_body(parameters, request_values(ReadRequest(2)))) == {"shard": 2}


def test_call_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidRequestError, match=r"there are .*tail"):
        call_named("tial", of_stream=True)
    with pytest.raises(InvalidRequestError, match="server"):
        call_named("read", of_stream=False)
