"""A job holds its schema as text, whatever becomes of the file that it was named by."""

import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema
from streaming_jobs.jobs.newest_schema import text_of, text_of_file

TEXT = '{"type":"record","name":"Heat","fields":[{"name":"heat","type":"double"}]}'


@pytest.mark.parametrize("named", [TEXT, "heat.avsc"])
@pytest.mark.parametrize("taken", [text_of, text_of_file])
def test_schema_that_is_named_is_its_text(tmp_path, monkeypatch, named, taken):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat.avsc").write_text(TEXT)
    assert AvroSchema.parse(taken(named)).fingerprint == AvroSchema.parse(TEXT).fingerprint


def test_subject_stays_where_its_id_is_to_be_written():
    assert text_of_file("heat-value --version 3") == "heat-value --version 3"


@pytest.mark.parametrize("taken", [text_of, text_of_file])
def test_file_that_is_not_there_is_told(taken):
    with pytest.raises(InvalidRequestError, match=r"option schema: nowhere\.avsc cannot be read"):
        taken("nowhere.avsc")
