"""What is subscribed to: names, a pattern, or shards; every mistake is told by its option."""

import pytest

from storage_core import InvalidRequestError, Stream, drop_stream
from streaming_jobs.source.driver.subscription import Subscription
from streaming_jobs.source.options import parse_source_options


def subscription(**options):
    return parse_source_options({"path": "/root", **options}).subscription


def test_subscribe_names_streams_once_each():
    assert subscription(subscribe=" b ,a,,b").names == ("a", "b")


def test_stream_is_one_of_them():
    assert subscription(stream="a") == subscription(subscribe="a") == Subscription(("a",))
    assert subscription(stream="a", subscribe="a") == Subscription(("a",))


@pytest.mark.parametrize(
    ("pattern", "streams"),
    [
        ("ev.*", ["ev", "ev.b", "prev"]),
        ("^ev", ["ev", "ev.b"]),
        (r"^ev\.b$", ["ev.b"]),
        ("other|prev", ["other", "prev"]),
        ("(?i)EV.B", ["ev.b"]),
        ("nothing", []),
    ],
)
def test_pattern_is_looked_for_in_names_as_kafkas_source_does(tmp_path, pattern, streams):
    for name in ("ev", "ev.b", "prev", "other", "ev-gone"):
        Stream.create(tmp_path, name).close()
    drop_stream(tmp_path, "ev-gone")
    by_pattern = subscription(subscribePattern=pattern)
    assert list(by_pattern.streams(str(tmp_path))) == streams
    assert all(by_pattern.takes(name) for name in streams)


def test_assign_names_shards():
    assigned = subscription(assign='{"b":[1,0],"a":[3]}')
    assert assigned.names == ("a", "b")
    assert assigned.shards == {"a": {3}, "b": {0, 1}}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": " , "}, "option stream is missing"),
        ({"stream": "a,b"}, "option stream: 'a,b' is not one stream; subscribe names several"),
        ({"stream": "a", "subscribe": "a,b"}, "name different streams"),
        ({"subscribe": "a", "subscribePattern": "a"}, "options subscribe and subscribePattern"),
        ({"stream": "a", "assign": "{}"}, "options assign and stream both say what is read"),
        ({"subscribePattern": " "}, "option subscribePattern: ' ' is not a pattern"),
        ({"subscribePattern": "*a"}, r"'\*a' cannot be read as a pattern: nothing to repeat"),
        ({"subscribePattern": "[a-z&&[^b]]"}, "as a pattern: Possible set intersection"),
        ({"subscribePattern": r"\p{Alpha}"}, r"cannot be read as a pattern: bad escape \\p"),
        ({"assign": "a"}, "option assign: 'a' is not JSON like"),
        ({"assign": "{}"}, "option assign: '{}' is not JSON like"),
        ({"assign": '{"a":[]}'}, "is not JSON like"),
        ({"assign": '{"a":0}'}, "is not JSON like"),
        ({"assign": '{"a":[-1]}'}, "is not JSON like"),
        ({"assign": '{"a":[1,1]}'}, "is not JSON like"),
        ({"assign": '{"a b":[1]}'}, "is not JSON like"),
        (
            {"subscribe": "a,b", "startingOffsets": '{"a":{"0":1}}'},
            r"it reads streams \['a', 'b'\]",
        ),
        ({"subscribePattern": "a", "startingOffsets": '{"b":{"0":1}}'}, "streams that match 'a'"),
    ],
    ids=str,
)
def test_bad_subscription_is_told(options, said):
    with pytest.raises(InvalidRequestError, match=said) as raised:
        subscription(**options)
    assert "\n" not in str(raised.value)
