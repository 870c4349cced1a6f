"""Spark 4.1 finds the rows of a table, and streams each once, by the lines of docs/LAKE.md."""

import pytest

from tests.lake.readers.delta_spark import DELTA, packages_of_the_page


def test_page_names_the_jars_that_are_tried():
    assert ":".join(DELTA[0]) in packages_of_the_page()


# However long a download takes, it is no fault of the code.
@pytest.mark.spark
@pytest.mark.timeout(0)
def test_batches_and_streams_of_spark_bring_each_row_once(lab, delta_spark, tmp_path, shardlog):
    table = delta_spark.table(lab.target.uri, tmp_path / "checkpoint")
    lab.fill_parts()
    turn = table.turn(lab.columns)
    begun = lab.visible_rows(shardlog)
    assert turn.frame == turn.news == begun

    lab.evolve()
    lab.fill_parts()
    lab.compact()
    turn = table.turn(lab.columns)
    expected = lab.visible_rows(shardlog)
    assert turn.frame == expected
    assert len(turn.news) == len(expected) - len(begun)
    assert set(turn.news) <= set(expected)
    assert len(set(turn.news)) == len(turn.news)
