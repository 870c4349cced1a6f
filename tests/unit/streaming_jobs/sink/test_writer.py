"""The sink's writers as Spark asks for them, one a batch: what is told before any row is taken."""

from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from storage_core import InvalidRequestError, Stream, StreamOptions
from streaming_jobs.sink.writer import batch_writer, stream_writer
from tests.log.serve.served import serving

RECORDS = (
    StructType()
    .add("primary", LongType())
    .add("secondary", IntegerType())
    .add("value", BinaryType())
)


@pytest.fixture
def place(tmp_path):
    return {"path": str(tmp_path / "root"), "stream": "s"}


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_options_of_kafkas_sink_are_told_to_be_idle_once(writer, place, caplog):
    options = {**place, "includeHeaders": "true", f"kafka.{writer.__name__}": "x"}
    for _batch in range(2):
        writer(options, RECORDS, overwrite=False)
    said = f"options for Kafka's sink do nothing here: includeheaders, kafka.{writer.__name__}"
    assert caplog.messages == [said]


def test_write_without_idle_options_says_nothing(place, caplog):
    batch_writer(place, RECORDS, overwrite=False)
    assert caplog.messages == []


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_view_with_columns_takes_rows_that_have_them(writer, place):
    names = {"columns": "primary, secondary, value"}
    assert writer({**place, **names}, RECORDS, overwrite=False).mapping.form == "records"


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_columns_that_rows_do_not_have_are_refused_before_a_stream_is_made(writer, place):
    said = r"option columns names primary, value, and the rows have primary, secondary, value; "
    with pytest.raises(InvalidRequestError, match=said):
        writer({**place, "columns": "primary,value"}, RECORDS, overwrite=False)
    assert not Path(place["path"]).exists()


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_stream_that_is_there_is_asked_for_once(writer, tmp_path):
    Stream.create(tmp_path, "s", StreamOptions(key_mode="dictionary", unit="us")).close()
    columns = StructType().add("primary", LongType()).add("key", BinaryType())
    with serving(tmp_path, is_writable=True) as served:
        options = {"server": served.server.address, "stream": "s"}
        writer(options, columns.add("value", BinaryType()), overwrite=False)
        assert (
            'requests_total{call="staging",status="200"} 1\n'
            in served.get("/metrics").read().decode()
        )
