"""Goal: no byte of a part's file reaches Parquet's library that is not as it was published.

Method: a small file is written as parts are; each of its bytes differs in turn, or another file
stands in its place. A byte of a footer that got through would end the process of the test.
"""

import pyarrow as pa
import pytest

from storage_core.errors import CorruptionError
from storage_core.parts.part_file import write_part
from storage_core.sealed.part_groups import PartFile


@pytest.fixture
def part(tmp_path):
    path = tmp_path / "part-0000000000.parquet"
    return path, written(path, 0)[1]


def written(path, first):
    rows = pa.table({"secondary": pa.array([1, 2], pa.int32()), "primary": [5, 6]})
    rows = rows.append_column("address", pa.array([first, first + 1]))
    return write_part(path, rows, ("secondary", "primary", "address"))


def test_each_byte_that_differs_is_told(part):
    path, digest = part
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptionError, match="not as it was published") as told:
            PartFile(path, digest)
        assert told.value.path == path


def test_file_of_another_part_is_told(part):
    path, digest = part
    path.unlink()
    written(path, 2)
    with pytest.raises(CorruptionError, match="not as it was published"):
        PartFile(path, digest)


def test_file_that_is_as_it_was_is_read(part):
    path, digest = part
    with PartFile(path, digest) as file:
        assert file.read(0, ["primary"]).column("primary").to_pylist() == [5, 6]


def test_file_that_is_gone_is_no_damage(part):
    path, digest = part
    path.unlink()
    with pytest.raises(FileNotFoundError):
        PartFile(path, digest)
