"""Spark 4.1 finds the rows of a table, and streams each once, by the lines of docs/LAKE.md."""

import sys
from collections.abc import Iterator

import pytest

from tests.lake.readers.delta_spark import DELTA, DeltaSpark, packages_of_the_page
from tests.versions.pysparks import FetchError


@pytest.fixture
def spark(lab, tmp_path, capsys) -> Iterator[DeltaSpark]:
    def tell(line: str) -> None:
        with capsys.disabled():
            sys.stderr.write(f"{line}\n")

    place = tmp_path / "spark"
    place.mkdir()
    try:
        program = DeltaSpark(place, lab.target.uri, tell)
    except FetchError as error:
        pytest.skip(str(error))
    with program:
        yield program


def test_page_names_the_jars_that_are_tried():
    assert ":".join(DELTA[0]) in packages_of_the_page()


# However long a download takes, it is no fault of the code.
@pytest.mark.spark
@pytest.mark.timeout(0)
def test_batches_and_streams_of_spark_bring_each_row_once(lab, spark, shardlog):
    lab.fill_parts()
    frame, news = spark.turn(lab.columns)
    begun = lab.visible_rows(shardlog)
    assert frame == news == begun

    lab.evolve()
    lab.fill_parts()
    lab.compact()
    frame, news = spark.turn(lab.columns)
    expected = lab.visible_rows(shardlog)
    assert frame == expected
    assert len(news) == len(expected) - len(begun)
    assert set(news) <= set(expected)
    assert len(set(news)) == len(news)
