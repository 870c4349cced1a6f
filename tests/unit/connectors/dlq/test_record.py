"""A dead letter's bytes: what a worker wrote comes back; what anybody else wrote is told apart."""

import json

import pytest

from connectors.dlq.record import DeadLetter, decode_dead_letter, encode_dead_letter

LETTER = DeadLetter(
    "no key, \ud7ff", "orders", 3, 2**40, -1, -1, None, b"\0\xff", [("trace", None), ("", b"\xff")]
)


def spoilt(**fields):
    return json.dumps({**json.loads(encode_dead_letter(LETTER)), **fields}).encode()


def test_what_a_worker_wrote_comes_back():
    assert decode_dead_letter(encode_dead_letter(LETTER)) == LETTER


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"{}",
        spoilt(more=1),
        spoilt(offset="9"),
        spoilt(timestamp=1.5),
        spoilt(partition=True),
        spoilt(topic=None),
        spoilt(reason=["no key"]),
        spoilt(reason="\ud800"),
        spoilt(key=5),
        spoilt(value="ä"),
        spoilt(headers=[["trace"]]),
        spoilt(headers=[[5, None]]),
        spoilt(headers={"trace": None}),
    ],
)
def test_what_no_worker_wrote_is_told_apart(data):
    with pytest.raises(ValueError, match="no dead letter of a worker"):
        decode_dead_letter(data)
