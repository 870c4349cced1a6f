"""Schemas as files: which refers to which, in which order, and what is wrong with one."""

import json

import pytest

from connectors.registry import read_schema_files
from storage_core import InvalidRequestError


@pytest.fixture
def put(tmp_path):
    def put(file: str, name: str, *uses: str, **more) -> None:
        fields = [{"name": f"f{place}", "type": use} for place, use in enumerate(uses)]
        text = json.dumps({"type": "record", "name": name, "fields": fields, **more})
        (tmp_path / file).write_text(text)

    return put


def names(tmp_path) -> list[str]:
    return [file.path.name for file in read_schema_files([tmp_path])]


def test_schema_comes_behind_what_it_refers_to_and_its_elders(put, tmp_path) -> None:
    put("a.v10.avsc", "a.A", "a.B")
    put("a.v9.avsc", "a.A", "int")
    put("b.v1.avsc", "a.B", "a.C")
    put("c.avsc", "a.C")
    order = names(tmp_path)
    assert order.index("c.avsc") < order.index("b.v1.avsc") < order.index("a.v10.avsc")
    assert order.index("a.v9.avsc") < order.index("a.v10.avsc")


def test_reference_means_the_version_it_names_or_the_newest(put, tmp_path) -> None:
    put("b.v1.avsc", "n.B")
    put("b.v2.avsc", "n.B")
    put("a.v1.avsc", "A", "B", namespace="n", references={"n.B": 1})
    put("a.v2.avsc", "A", {"type": "array", "items": ["null", "B"]}, namespace="n")
    files = {file.path.name: file for file in read_schema_files([tmp_path])}
    assert [one.version for one in files["a.v1.avsc"].references] == [1]
    assert [one.version for one in files["a.v2.avsc"].references] == [2]


def test_schema_that_two_refer_to_is_given_once(put, tmp_path) -> None:
    put("d.avsc", "n.D")
    put("b.avsc", "n.B", "n.D")
    put("c.avsc", "n.C", "n.D")
    put("a.avsc", "n.A", "n.B", {"type": "map", "values": "n.C"})
    assert names(tmp_path)[-1] == "a.avsc"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("a.avsc", "{", "not JSON"),
        ("a.avsc", "[" * 100_000, "not JSON"),
        ("a.avsc", "{}", "not an Avro schema"),
        ("a.avsc", '{"type": "record", "name": "A"}', "not an Avro schema"),
        ("a.avsc", '"n.B"', "refers to n.B, which is in none of the files"),
        ("v1.avsc.avsc", '{"type": "int", "references": {"a": "1"}}', "write full names"),
    ],
)
def test_file_that_is_no_schema_is_named(tmp_path, file, text, said) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(InvalidRequestError, match=said) as raised:
        read_schema_files([tmp_path])
    assert raised.value.path == tmp_path / file


def test_version_that_is_not_there_is_named(put, tmp_path) -> None:
    put("b.v1.avsc", "n.B")
    put("a.v1.avsc", "n.A", "n.B", references={"n.B": 7})
    with pytest.raises(InvalidRequestError, match=r"refers to n.B, version 7"):
        read_schema_files([tmp_path])


def test_circle_of_references_is_told(put, tmp_path) -> None:
    put("a.avsc", "n.A", "n.B")
    put("b.avsc", "n.B", "n.A")
    with pytest.raises(InvalidRequestError, match="in a circle"):
        read_schema_files([tmp_path])


def test_version_that_is_there_twice_is_told(put, tmp_path) -> None:
    put("a.v1.avsc", "n.A")
    put("b.v1.avsc", "n.A")
    with pytest.raises(InvalidRequestError, match=r"has version 1 in .*a.v1.avsc too"):
        read_schema_files([tmp_path])


def test_folder_without_schemas_and_missing_file_are_told(tmp_path) -> None:
    with pytest.raises(InvalidRequestError, match="no file"):
        read_schema_files([tmp_path])
    with pytest.raises(InvalidRequestError, match="No such file"):
        read_schema_files([tmp_path / "a.avsc"])


@pytest.mark.parametrize("attributes", [{"namespace": ""}, {"namespace": None}])
def test_type_of_its_own_file_is_found_whether_it_has_a_namespace_or_not(
    tmp_path, attributes
) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"], **attributes}
    fields = [{"name": "a", "type": enum}, {"name": "b", "type": ["null", "E"]}]
    record = {"type": "record", "name": "R", "namespace": "x", "fields": fields}
    (tmp_path / "R.v1.avsc").write_text(json.dumps(record))
    assert [one.full_name for one in read_schema_files([tmp_path])] == ["x.R"]
