"""The golden store of format version 3 tells all that it told when it was written.

`write_v3.py` says what is in it. Every test works on a copy.
"""

from storage_core import Stream, StreamReader
from storage_core.testing import FaultyDisk, ManualClock
from tests.golden.write_v1 import COLUMNS, NOW_MS, STREAM, plain
from tests.golden.write_v3 import NEVER_WRITTEN, SEGMENT, told_by
from tests.log.workbench import batch_of

STORE = "v3"


def test_store_has_blocks_of_both_kinds(root):
    assert (root / SEGMENT).read_bytes().count(b"SLBK") > 1
    tables = (root / STREAM / "shard-0000/db").glob("0*")
    assert any(b"SLBK" in path.read_bytes() for path in tables)


def test_writer_finds_all_as_it_was_written(stream, expected):
    assert told_by(stream) == expected
    assert stream.verify().is_clean


def test_reader_finds_all_as_it_was_written(root, expected):
    with StreamReader.open(root, STREAM) as reader:
        assert reader.committed() == {0: expected["committed"]}
        assert list(plain(reader.tail(0, columns=COLUMNS))) == expected["rows"]


def test_large_batch_goes_where_the_noted_end_is(root):
    before = (root / SEGMENT).read_bytes()
    assert before.endswith(NEVER_WRITTEN)
    disk = FaultyDisk(apart_bytes_min=1)
    with Stream.open(root, STREAM, environment=disk.environment(ManualClock())) as stream:
        stream.append_batch(batch_of([NOW_MS]))
        stream.commit()
        assert stream.verify().is_clean
    blocks = before.removesuffix(NEVER_WRITTEN)
    assert (root / SEGMENT).read_bytes().startswith(blocks + b"SLBK")


def test_lost_segment_is_told_with_its_name(root, stream):
    (root / SEGMENT).unlink()
    told = [problem.what for problem in stream.verify().problems]
    assert any("a segment is missing" in one for one in told)
