"""Whose a table is: a topic's stream is the same in every root, any other that of its root."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_meta import StreamMeta
from storage_core.lake.app_id import LakeStream, described_stream, lake_stream

ORIGIN = StreamOrigin("kafka", "orders", "topic-id", "none", "timestamp")
META = StreamMeta("orders", "made-1", "ms", "day", 0, 1)
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
IDENTITIES = st.text(st.characters(codec="ascii", exclude_characters=" \n"), min_size=1)


def test_stream_of_a_topic_is_the_same_in_every_root():
    of_topic = replace(META, origin=ORIGIN)
    elsewhere = replace(of_topic, incarnation="made-2")
    assert lake_stream(of_topic, "root-1") == lake_stream(elsewhere, "root-2")


def test_topic_that_was_made_anew_is_another():
    other = replace(META, origin=replace(ORIGIN, topic_id="topic-id-2"))
    assert lake_stream(replace(META, origin=ORIGIN), "root") != lake_stream(other, "root")


@pytest.mark.parametrize(
    ("meta", "root"), [(META, "root-2"), (replace(META, incarnation="made-2"), "root-1")]
)
def test_stream_without_a_topic_is_that_of_its_root_and_making(meta, root):
    assert lake_stream(META, "root-1") != lake_stream(meta, root)


@given(NAMES, IDENTITIES)
def test_description_names_the_stream(name, identity):
    stream = LakeStream(name, identity)
    assert described_stream(stream.description) == stream


@pytest.mark.parametrize("text", [None, "", "orders", "shardlog stream ", "shardlog stream a"])
def test_other_descriptions_name_none(text):
    assert described_stream(text) is None


@given(st.tuples(NAMES, IDENTITIES, st.integers(0)), st.tuples(NAMES, IDENTITIES, st.integers(0)))
def test_application_ids_of_different_shards_differ(left, right):
    first, second = LakeStream(*left[:2]).app_id(left[2]), LakeStream(*right[:2]).app_id(right[2])
    assert (first == second) == (left == right)
