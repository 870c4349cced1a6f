"""Streams with a key dictionary by a real Spark: written, read and copied by their keys."""

from typing import Any

import pytest

from storage_core import StreamReader
from tests.spark.support.sink_lab import NAME, SinkLab

KEYS = ["ann", None, "bob", "ann", ""]


@pytest.fixture
def lab(spark, tmp_path):
    return SinkLab(spark, tmp_path)


@pytest.fixture
def keyed(lab):
    """Five rows of three keys and of none, in two shards."""
    rows = [(number, key, b"%d" % number) for number, key in enumerate(KEYS)]
    frame = lab.spark.createDataFrame(rows, "primary long, key string, value binary")
    lab.write(frame.repartition(3), shards=2, keyMode="dictionary")
    return lab


def primaries(lab: SinkLab, stream: str = NAME, **options: Any) -> list[int]:
    chosen = lab.options(stream=stream, **options)
    del chosen["lockWait"]
    frame = lab.spark.read.format("shardlog").options(**chosen).load()
    return sorted(row["primary"] for row in frame.select("primary", "secondary").collect())


def test_rows_land_under_their_keys(keyed):
    with StreamReader.open(keyed.root, NAME) as reader:
        assert reader.options.key_mode == "dictionary"
        assert reader.read(keys=[b"ann", None])["primary"].to_pylist() == [1, 0, 3]


def test_what_the_source_shows_is_taken_by_another_stream(keyed):
    options = keyed.options()
    del options["lockWait"]
    frame = keyed.spark.read.format("shardlog").options(**options).load()
    keyed.write(frame, stream="copy", keyMode="dictionary")
    assert primaries(keyed, "copy", keys='["ann"]') == [0, 3]
