"""Attachments: written with rows in one batch, read by their keys, deleted by ranges of keys."""

import pytest

from storage_core import InvalidRequestError

NOTES = [("default", b"a1", b"one"), ("default", b"a2", b"two"), ("default", b"b1", b"three")]
KEYS = [b"a1", b"a2", b"b1", b"c1"]


def test_attachments_are_read_by_their_keys_before_and_behind_a_commit(bench):
    bench.append([1], attachments=NOTES)
    assert bench.stream.attachments(0, KEYS) == [b"one", b"two", b"three", None]
    bench.commit()
    bench.crash()
    bench.reopen()
    assert bench.stream.attachments(0, KEYS) == [b"one", b"two", b"three", None]


def test_attachments_of_rows_that_a_crash_took_are_gone_with_them(bench):
    bench.keep([1], attachments=NOTES[:1])
    bench.append([2], attachments=[("default", b"a1", b"later")])
    bench.crash()
    bench.cut_log(1)
    bench.reopen()
    assert bench.primaries() == [1]
    assert bench.stream.attachments(0, [b"a1"]) == [b"one"]


def test_attachments_of_a_range_are_deleted_and_those_beside_it_stay(bench):
    bench.append([1], attachments=NOTES)
    bench.stream.clear_attachments(0, b"a1", b"b")
    bench.append([2], attachments=[("default", b"a2", b"again")])
    bench.commit()
    bench.crash()
    bench.reopen()
    assert bench.stream.attachments(0, KEYS) == [None, b"again", b"three", None]
    assert bench.primaries() == [1, 2]
    assert bench.stream.verify().is_clean


@pytest.mark.parametrize("keys", [b"a1", 5, ["a1"], [b"a1", None]])
def test_what_is_no_key_of_an_attachment_is_refused(bench, keys):
    with pytest.raises(InvalidRequestError, match="attachment"):
        bench.stream.attachments(0, keys)


def test_range_of_attachments_whose_end_is_lower_is_refused(bench):
    with pytest.raises(InvalidRequestError, match="the end is lower"):
        bench.stream.clear_attachments(0, b"b", b"a")
