"""Headers behind a record's own: what is before them comes back byte for byte."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.dlq.origin import Origin, split_origin, with_origin
from connectors.dlq.record import DeadLetter

texts = st.text(max_size=5)
headers = st.none() | st.lists(st.tuples(texts, st.none() | st.binary(max_size=5)), max_size=4)
numbers = st.integers(-(2**63), 2**63 - 1)


def letter(own, timestamp=17):
    return DeadLetter("key of 6 bytes", "orders", 3, 42, timestamp, 1, b"k", b"v", own)


@given(headers, numbers)
def test_own_headers_and_origin_come_back(own, timestamp):
    split = split_origin(with_origin(letter(own, timestamp), "key", "id", "group"))
    assert split == (own or [], Origin("orders", 3, 42, "id", timestamp, 1, "key"))


@given(headers)
def test_record_that_goes_through_twice_keeps_the_headers_of_the_first_time(own):
    once = with_origin(letter(own), "key", "id", "group")
    split = split_origin(with_origin(letter(once), "size", "id", "group"))
    assert split is not None
    assert split[0] == once


@given(headers)
def test_headers_that_no_forwarder_wrote_have_no_origin(own):
    assert split_origin(own) is None


def test_headers_are_those_of_kafka_connect_and_none_of_the_record_is_replaced():
    own = [("__connect.errors.topic", b"older"), ("a", None)]
    headers = with_origin(letter(own), "key", "id", "group")
    assert headers[:2] == own
    connects = {name: value for name, value in headers if name.startswith("__connect.errors.")}
    assert connects == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"42",
        "__connect.errors.connector.name": b"group",
        "__connect.errors.task.id": b"3",
        "__connect.errors.stage": b"KEY_CONVERTER",
        "__connect.errors.class.name": b"shardlog",
        "__connect.errors.exception.class.name": b"shardlog.key",
        "__connect.errors.exception.message": b"key of 6 bytes",
    }


def test_origin_that_was_tampered_with_is_none():
    headers = with_origin(letter([]), "key", "id", "group")
    for name, _ in (headers[1], headers[4], headers[5]):
        broken = [(name, b"\xff") if each[0] == name else each for each in headers]
        assert split_origin(broken) is None, name
