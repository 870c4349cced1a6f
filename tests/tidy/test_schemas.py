"""Released schemas: none ever changes, and each understands all before it and is understood.

Compatible is FULL_TRANSITIVE: whoever has a newer version reads what any older one wrote, and the
other way round. A log is read for ever, by jobs that are not all brought up to date at once. Judged
by Avro's own library, which the product does not use, after the files were put together by ours.
"""

import hashlib
from itertools import combinations

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse

from connectors.registry import SchemaFile, read_schema_files
from tests.tidy.tree import ROOT

SCHEMAS = ROOT / "schemas/avro"
RELEASED = SCHEMAS / "released.sha256"


def released() -> dict[str, str]:
    lines = (line.split() for line in RELEASED.read_text().splitlines())
    return {path: digest for digest, path in lines}


def can_read(reader: SchemaFile, writer: SchemaFile) -> bool:
    checker = ReaderWriterCompatibilityChecker()
    found = checker.get_compatibility(parse(reader.alone.text), parse(writer.alone.text))
    return found.compatibility is SchemaCompatibilityType.compatible


def pairs() -> list[tuple[SchemaFile, SchemaFile]]:
    files = read_schema_files([SCHEMAS])
    return [(a, b) for a, b in combinations(files, 2) if a.full_name == b.full_name]


def test_released_schema_never_changes() -> None:
    there = {
        path.relative_to(SCHEMAS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(SCHEMAS.rglob("*.avsc"))
    }
    advice = "undo it and add a version; of a new file `sha256sum` its line to released.sha256"
    assert there == released(), advice


@pytest.mark.parametrize(("older", "newer"), pairs(), ids=lambda file: file.path.name)
def test_versions_understand_each_other(older, newer) -> None:
    assert older.version < newer.version
    assert can_read(newer, older)
    assert can_read(older, newer)


def test_there_are_versions_to_compare() -> None:
    assert len(pairs()) >= 3


def test_file_is_named_after_its_schema() -> None:
    for file in read_schema_files([SCHEMAS]):
        name = f"{file.path.parent.name}.{file.path.name.partition('.')[0]}"
        assert file.full_name.lower() == name
