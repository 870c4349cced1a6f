"""Errors: the kind tells what to do, the place stands in text and attributes."""

from pathlib import Path

import pytest

import storage_core
from storage_core import ShardlogError

KINDS = [
    kind
    for kind in (getattr(storage_core, name) for name in storage_core.__all__)
    if isinstance(kind, type) and issubclass(kind, ShardlogError)
]
RETRIABLE = {
    storage_core.UnavailableError,
    storage_core.ShardLockedError,
    storage_core.BrokerUnavailableError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_error_carries_its_place_and_says_it(kind):
    error = kind("gone", stream="clicks", shard=3, path=Path("db"), start=5, end=7)
    assert str(error) == "gone (stream 'clicks', shard 3, addresses [5, 7), at db)"
    assert (error.stream, error.shard, error.path) == ("clicks", 3, Path("db"))
    assert (error.start, error.end) == (5, 7)


def test_error_without_a_place_is_its_message():
    assert str(ShardlogError("gone")) == "gone"


def test_shard_zero_and_address_zero_are_places():
    assert str(ShardlogError("gone", shard=0, start=0, end=1)) == (
        "gone (shard 0, addresses [0, 1))"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_may_succeed_later_is_retriable(kind):
    assert kind.retriable == (kind in RETRIABLE)


def test_refused_argument_is_also_a_value_error():
    assert issubclass(storage_core.InvalidRequestError, ValueError)


def test_lost_range_and_newer_format_are_kinds_of_corruption():
    assert issubclass(storage_core.LostRangeError, storage_core.CorruptionError)
    assert issubclass(storage_core.UnsupportedFormatError, storage_core.CorruptionError)
