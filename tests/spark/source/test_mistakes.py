"""Usual mistakes in reading: a line says what is wrong, and what to write."""

import pytest
from pyspark.errors import AnalysisException

from tests.spark.support.lab import first_line
from tests.spark.support.sink_lab import SinkLab


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (
            lambda reader, _: reader.load(),
            'options path and stream are missing: .option("path", …)',
        ),
        (lambda reader, _: reader.option("stream", "events").load(), "option path is missing"),
        (lambda reader, root: reader.load(root), "option stream is missing"),
        (lambda reader, root: reader.load([root, "/b"]), "a source reads one root, load(root)"),
        (
            lambda reader, root: (
                reader.schema("a int").option("stream", "events").load(root).count()
            ),
            "leave .schema(…) out",
        ),
    ],
)
def test_load_says_what_is_missing(full, load, said):
    with pytest.raises(AnalysisException) as raised:
        load(full.spark.read.format("shardlog"), str(full.log.root))
    assert said in first_line(raised.value)


def test_checkpoint_of_another_source_is_refused(full, tmp_path):
    files = SinkLab(full.spark, tmp_path / "files")
    files.feed(1)
    files.run()
    full.checkpoint = files.checkpoint
    said = full.fails(startingOffsets="earliest").splitlines()[0]
    assert "is no offset of this source; where another source has written a checkpoint" in said
