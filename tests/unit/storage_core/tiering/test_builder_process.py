"""Goal: the builder process yields to its owner all along, and most where it decodes.

Method: that process itself, which tells where it would have looked whether its owner waits.
"""

import os

import pytest

from storage_core import PartBuilder
from storage_core.tiering import part_builder
from tests.log.parts.parts_lab import PartsLab, schema_of

PIECE_ROWS = 100
ROWS = 2000
TELLING = f"""
import os, sys
from pathlib import Path
from storage_core.platform.yielding import Yielding
from storage_core.parts import payloads
from storage_core.tiering import builder_process

def listed(way):
    is_decoding = sys._getframe(2).f_code is payloads.with_typed_columns.__code__
    with Path(os.environ["TOLD"]).open("a") as file:
        print(way._process, is_decoding, file=file)

Yielding.step = listed
payloads._PIECE_ROWS = {PIECE_ROWS}
builder_process.main()
"""


@pytest.fixture
def looks_file(tmp_path, monkeypatch):
    """The file in which it tells of whom, and whether between pieces that it decodes."""
    (tmp_path / "telling.py").write_text(TELLING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TOLD", str(tmp_path / "looks"))
    monkeypatch.setattr(part_builder, "_MODULE", "telling")
    return tmp_path / "looks"


def test_it_looks_again_and_again_whether_its_owner_waits(root, looks_file):
    lab = PartsLab(root, seal_rows=1)
    levels = [{"level": at} for at in range(ROWS)]
    lab.append_values(schema_of([{"name": "level", "type": "int"}]), levels, 40)
    with PartBuilder() as builder:
        assert lab.stream.maintain(builder).rows_sealed == ROWS
    lab.stream.close()
    looks = [line.split() for line in looks_file.read_text().splitlines()]
    assert {int(process) for process, _ in looks} == {os.getpid()}
    assert sum(is_decoding == "True" for _, is_decoding in looks) == ROWS // PIECE_ROWS
    assert any(is_decoding == "False" for _, is_decoding in looks)
