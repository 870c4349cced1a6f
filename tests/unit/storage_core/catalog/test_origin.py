"""What is kept of a stream's origin comes back, and says how its rows find their shards."""

from dataclasses import replace

import pytest

from storage_core import Stream, StreamOptions
from storage_core.catalog.origin import decode_origin, encode_origin
from storage_core.catalog.stream_file import read_stream
from tests.log.topics import NAME, TOPIC


@pytest.mark.parametrize("key_mode", ["integer", "none"])
@pytest.mark.parametrize("primary", ["timestamp", "offset"])
def test_origin_comes_back(key_mode, primary):
    origin = replace(TOPIC, key_mode=key_mode, primary=primary)
    assert decode_origin(encode_origin(origin)) == origin


def test_no_origin_comes_back():
    assert decode_origin(encode_origin(None)) is None


def test_plain_streams_route_by_low_bits_and_others_do_not(root):
    Stream.create(root, NAME, origin=TOPIC).close()
    Stream.create(root, "plain", StreamOptions(shards=4)).close()
    assert read_stream(root, NAME).meta.route_mask is None
    assert read_stream(root, "plain").meta.route_mask == 3
