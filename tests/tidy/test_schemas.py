"""Released schemas: none ever changes, and each understands all before it and is understood.

Compatible is FULL_TRANSITIVE: whoever has a newer version reads what any older one wrote, and the
other way round. A log is read for ever, by jobs that are not all brought up to date at once. Judged
by Avro's own library, which the product does not use, after the files were put together by ours.
"""

import hashlib
import json
from collections.abc import Mapping
from itertools import combinations

import pyarrow as pa
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse

from connectors.registry import SchemaFile, read_schema_files
from storage_core.avro import AvroSchema, decode_batch
from tests.tidy.tree import ROOT

SCHEMAS = ROOT / "schemas/avro"
RELEASED = SCHEMAS / "released.sha256"


def released() -> dict[str, str]:
    lines = (line.split() for line in RELEASED.read_text().splitlines())
    return {path: digest for digest, path in lines}


def can_read(reader: str, writer: str) -> bool:
    compatibility = ReaderWriterCompatibilityChecker().get_compatibility(
        parse(reader), parse(writer)
    )
    return compatibility.compatibility is SchemaCompatibilityType.compatible


def decodes(reader: str, writer: str) -> bool:
    no_bodies = pa.array([], pa.binary())
    try:
        decode_batch(no_bodies, AvroSchema.parse(writer), reader=AvroSchema.parse(reader))
    except ValueError:
        return False
    return True


def pairs() -> list[tuple[SchemaFile, SchemaFile]]:
    files = read_schema_files([SCHEMAS])
    return [(a, b) for a, b in combinations(files, 2) if a.full_name == b.full_name]


def test_released_schema_never_changes() -> None:
    checksums = {
        path.relative_to(SCHEMAS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(SCHEMAS.rglob("*.avsc"))
    }
    advice = "undo it and add a version; of a new file `sha256sum` its line to released.sha256"
    assert checksums == released(), advice


@pytest.mark.parametrize(("older", "newer"), pairs(), ids=lambda file: file.path.name)
def test_versions_understand_each_other(older, newer) -> None:
    assert older.version < newer.version
    assert can_read(newer.alone.text, older.alone.text)
    assert can_read(older.alone.text, newer.alone.text)


def test_there_are_versions_to_compare() -> None:
    assert len(pairs()) >= 3


def test_file_is_named_after_its_schema() -> None:
    for file in read_schema_files([SCHEMAS]):
        name = f"{file.path.parent.name}.{file.path.name.partition('.')[0]}"
        assert file.full_name.lower() == name


def record(*fields: Mapping[str, object]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def of_type(kind: object) -> str:
    return record(A | {"type": kind})


def enum(*symbols: str) -> str:
    return of_type({"type": "enum", "name": "E", "symbols": symbols, "default": symbols[0]})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "int"}


@pytest.mark.parametrize(
    ("older", "newer", "newer_reads", "older_reads"),
    [
        pytest.param(record(A), record(A, B | {"default": 1}), True, True, id="add with default"),
        pytest.param(record(A), record(A, B), False, True, id="add without"),
        pytest.param(record(A, B | {"default": 1}), record(A), True, True, id="remove default"),
        pytest.param(record(A, B), record(A), True, False, id="remove without"),
        pytest.param(of_type("int"), of_type("long"), True, False, id="int to long"),
        pytest.param(of_type("float"), of_type("double"), True, False, id="float to double"),
        pytest.param(of_type("string"), of_type("bytes"), True, True, id="string to bytes"),
        pytest.param(enum("X", "Y"), enum("X", "Y", "Z"), True, True, id="add a symbol"),
        pytest.param(record(A), record(B | {"aliases": ["a"]}), True, False, id="rename"),
        pytest.param(of_type("int"), of_type("string"), False, False, id="another kind"),
    ],
)
def test_what_may_change_is_as_the_page_says(older, newer, newer_reads, older_reads) -> None:
    for judge in (can_read, decodes):
        assert (judge(newer, older), judge(older, newer)) == (newer_reads, older_reads)


def test_another_unit_is_refused_by_the_decoder_alone() -> None:
    units = [
        of_type({"type": "long", "logicalType": f"timestamp-{unit}"})
        for unit in ("millis", "micros")
    ]
    assert can_read(*units)
    assert not decodes(*units)
