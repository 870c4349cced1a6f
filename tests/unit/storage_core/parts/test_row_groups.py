"""Goal: no byte of a part's file is used that is not as it was published, and few are read.

Method: a small file is written as parts are; each of its bytes differs in turn, before the file is
first opened or after, or another file stands in its place. What is then read is reported as
damaged, or is what was written. A byte of a footer that got through would end the process of the
test.
"""

import os
import sys
from contextlib import suppress
from subprocess import run

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from storage_core.errors import CorruptionError, UnsupportedFormatError
from storage_core.format.chunk_table import decode_chunk_table
from storage_core.parts import footer, part_file
from storage_core.parts.footer import footer_of
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import digest_of, prove_part, read_part
from storage_core.parts.row_groups import PartFile
from tests.descriptors import open_files
from tests.thin import thinned
from tests.waiting import WAIT_MAX_S

ORDER = ("secondary", "primary", "address")
COLUMNS = (*ORDER, "state", "payload", "tags")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch):
    monkeypatch.setattr(part_file, "GROUP_ROWS", 3)


@pytest.fixture
def part(tmp_path):
    path = tmp_path / "part-0000000000.parquet"
    return path, write_part(path, rows_from(0), ORDER)


def rows_from(first):
    """Return rows of two groups; each has one state in each of them."""
    count = 6
    tags = [[("a", at), ("b", at + 1)] for at in range(count)]
    return pa.table(
        {
            "secondary": pa.array([1, 1, 2, 2, 3, 4], pa.int32()),
            "primary": pa.array(range(100, 100 + count)),
            "address": pa.array(range(first, first + count)),
            "state": pa.array([0, 0, 0, 1, 1, 1], pa.int8()),
            "payload": pa.array([b"payload %d" % at for at in range(count)], pa.binary()),
            "tags": pa.array(tags, pa.map_(pa.string(), pa.int64())),
        }
    )


def read_all(path, proof):
    with PartFile(path, proof) as file:
        return pa.concat_tables([file.read(at, COLUMNS) for at in range(file.footer.row_groups)])


def each_damage(path, places=None):
    """Yield the place of each byte while it differs."""
    whole = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for place in range(len(whole)) if places is None else places:
            os.pwrite(file.fileno(), bytes([whole[place] ^ 1]), place)
            yield place
            os.pwrite(file.fileno(), whole[place : place + 1], place)


def each_damage_by_name(path, places=None):
    """Yield the place of each byte while it differs, and a name of the file that nobody knows."""
    for item in each_damage(path, places):
        other = path.with_name(f"part-{item + 1:010}.parquet")
        os.link(path, other)
        yield item, other
        other.unlink()


def bytes_that_count(path, proof):
    """Return the places of the bytes that a read of all rows depends on: foot, and chunks."""
    table = footer_of(path, proof).table
    chunks = zip(table.offsets.tolist(), table.sizes.tolist(), strict=True)
    counted = {at for first, size in chunks for at in range(first, first + size)}
    # A column that has one value in a group is known by the foot.
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(3)
        assert chunk.path_in_schema == "state"
        first = chunk.data_page_offset
        counted -= set(range(first, first + chunk.total_compressed_size))
    return counted | set(range(proof.size - proof.footer_bytes, proof.size))


# A quarter of a file is a quarter of each of its chunks, and of its foot.
@thinned("first", range(4), count=1)
def test_each_byte_that_differs_is_told_or_not_used(part, first):
    path, proof = part
    counted = bytes_that_count(path, proof)
    for index, other in each_damage_by_name(path, range(first, proof.size, 4)):
        if index in counted:
            with pytest.raises(CorruptionError, match="not as they were published") as raised:
                read_all(other, proof)
            assert raised.value.path == other
        else:
            assert read_all(other, proof).equals(rows_from(0)), index


@thinned("first", range(5), count=1)
def test_byte_that_differs_later_is_told_or_not_used(part, first):
    path, proof = part
    counted = bytes_that_count(path, proof)
    part_footer = range(proof.size - proof.footer_bytes, proof.size)
    for item in each_damage(path, range(first, proof.size, 5)):
        # What is kept of a foot was proven.
        if item in counted and item not in part_footer:
            with pytest.raises(CorruptionError, match="not as they were published"):
                read_all(path, proof)
        else:
            assert read_all(path, proof).equals(rows_from(0)), item


def test_file_that_ends_early_is_told(part):
    path, proof = part
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        other = path.with_name(f"part-{size + 1:010}.parquet")
        other.write_bytes(whole[:size])
        with pytest.raises(CorruptionError, match="not as they were published"):
            PartFile(other, proof)
    with PartFile(path, proof) as file:
        path.write_bytes(b"")
        with pytest.raises(CorruptionError, match=r"bytes \d+ to \d+ of a part"):
            file.read(0, COLUMNS)


def test_file_of_another_part_is_told(part):
    path, proof = part
    path.unlink()
    write_part(path, rows_from(20), ORDER)
    with pytest.raises(CorruptionError, match="not as"):
        PartFile(path, proof)


def test_file_that_is_gone_is_no_damage(part):
    path, proof = part
    footer_of(path, proof)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        PartFile(path, proof)


def test_read_takes_the_bytes_of_its_columns_once(part, monkeypatch):
    path, proof = part
    taken = []
    usual = os.pread

    def listed(file, size, offset):
        taken.append((offset, size))
        return usual(file, size, offset)

    part_footer = footer_of(path, proof)
    monkeypatch.setattr(os, "pread", listed)
    with PartFile(path, proof) as file:
        assert not taken
        for columns in (ORDER, ("state", "payload"), ("tags",)):
            assert file.read(1, columns).equals(rows_from(0).slice(3).select(columns))
    offsets, sizes = (
        some.reshape(2, -1)[1] for some in (part_footer.table.offsets, part_footer.table.sizes)
    )
    expected = list(zip(offsets.tolist(), sizes.tolist(), strict=True))
    # The state is one in the group.
    del expected[3]
    assert taken == expected


def test_file_is_read_by_others_as_it_is_by_us(part):
    path, proof = part
    assert pq.read_table(path).equals(rows_from(0))
    assert path.stat().st_size == proof.size
    assert digest_of(path) == proof.digest


def test_field_inside_of_a_value_bounds_no_column(tmp_path):
    path = tmp_path / "part-0000000000.parquet"
    inside = pa.array([{"secondary": 7, "version": 3}] * 6)
    rows = rows_from(0).drop_columns(["secondary"]).append_column("value", inside)
    part_footer = footer_of(path, write_part(path, rows, ORDER[1:]))
    assert part_footer.may_lie_between("secondary", 1, 2).all()
    assert part_footer.only_value("version", 0) is None


def test_footers_and_summaries_are_cached_within_bytes(tmp_path, monkeypatch):
    footers = footer._FooterCache()
    parts = []
    for number in range(12):
        path = tmp_path / f"part-{number:010}.parquet"
        parts.append((path, write_part(path, rows_from(number), ORDER)))
    size = footers.get(*parts[0]).cached_bytes
    monkeypatch.setattr(footer, "CACHE_BYTES_MAX", 4 * size + 100)
    first = footers.get(*parts[0])
    for item in parts[1:]:
        footers.get(*item)
        assert footers.get(*parts[0]) is first
    assert len(footers._cached) == 4
    summary = footers.summary(*parts[0])
    assert summary.schema.equals(first.schema)
    assert summary.decoded_bytes == first.table.decoded_bytes
    parts[0][0].unlink()
    assert footers.summary(*parts[0]) is summary
    assert footers._bytes == sum(cached.cached_bytes for cached in footers._cached.values())


def test_fork_of_a_fork_reads_though_another_thread_looked_at_footers():
    program = """
import os, sys
from storage_core.parts import footer
for _ in range(2):
    footer._footers()._lock.acquire()
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if footer._footers()._lock.locked():
        os._exit(1)
"""
    run([sys.executable, "-c", program], check=True, timeout=WAIT_MAX_S)


def test_table_has_each_byte_before_the_foot_in_a_chunk_or_a_block_once(part):
    path, proof = part
    table = footer_of(path, proof).table
    assert table.outside is not None
    places = sorted(
        (offset, offset + size, digest)
        for some in (table, table.outside)
        for offset, size, digest in zip(
            some.offsets.tolist(), some.sizes.tolist(), some.digests.tolist(), strict=True
        )
    )
    ends = [0, *(end for _, end, _ in places)]
    assert [begin for begin, _, _ in places] == ends[:-1]
    assert ends[-1] == proof.size - proof.footer_bytes
    whole = path.read_bytes()
    assert all(xxhash.xxh3_64_intdigest(whole[begin:end]) == one for begin, end, one in places)


def test_table_of_another_form_is_told():
    for part_footer in (b"", b"PAR1" * 10, b"SLCT\x01\0\0\0" + b"\xff" * 16):
        with pytest.raises(CorruptionError, match="no column chunk table"):
            decode_chunk_table(part_footer)


def test_table_of_a_later_format_is_refused_by_name():
    with pytest.raises(UnsupportedFormatError, match="format 2 of a part's column chunk table"):
        decode_chunk_table(b"SLCT\x02" + bytes(40))


def test_file_is_let_go_when_it_cannot_be_read(part):
    path, proof = part
    path.write_bytes(b"")
    for _ in range(3):
        with suppress(CorruptionError):
            PartFile(path, proof)
    assert open_files(path.parent) == []


def test_groups_are_cut_by_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(part_file, "GROUP_ROWS", 64)
    monkeypatch.setattr(part_file, "GROUP_BYTES", 2**16)
    # Many that are equal, which a dictionary makes small; some large ones, and one larger than all.
    sizes = [100] * 200 + [2**13] * 20 + [2**17] + [2**12] * 30
    rows = pa.table(
        {
            "primary": pa.array(range(len(sizes))),
            "address": pa.array(range(len(sizes))),
            "payload": pa.array([bytes(size) for size in sizes], pa.binary()),
        }
    )
    path = tmp_path / "part-0000000000.parquet"
    proof = write_part(path, rows, ("primary", "address"))
    prove_part(path, rows)
    with PartFile(path, proof) as file:
        groups = [file.read(at, rows.schema.names) for at in range(file.footer.row_groups)]
        assert rows.nbytes <= file.footer.table.decoded_bytes < rows.nbytes + 1024
    assert pa.concat_tables(groups).equals(rows)
    assert max(one.num_rows for one in groups) == 64
    assert [one.num_rows for one in groups if one.nbytes > 2**16] == [1]
    assert len(groups) < 20
    # What is read back to prove a part is no more at once.
    assert [one.num_rows for one in read_part(path)] == [one.num_rows for one in groups]


@pytest.mark.parametrize("seed", range(40))
def test_no_group_that_has_a_key_is_left_out(tmp_path, seed):
    rng = np.random.default_rng(seed)
    sizes = (0, 1, 2, 3, 3, 30, 5000)
    alphabet = np.array([0, 1, 127, 128, 255], np.uint8)
    names = [bytes(rng.choice(alphabet, rng.choice(sizes))) for _ in range(30)]
    keys = sorted(rng.choice(np.array([*names, None], object), 30), key=lambda key: key or b"")
    keys.sort(key=lambda key: key is not None)
    rows = pa.table({"key": pa.array(keys, pa.binary()), "address": pa.array(range(30))})
    path = tmp_path / "part-0000000000.parquet"
    part_footer = footer_of(path, write_part(path, rows, ("key", "address")))
    groups = [set(keys[at : at + 3]) for at in range(0, 30, 3)]
    for _ in range(100):
        count = rng.integers(1, 4)
        wanted = [[*names, None, b"", b"\x80"][at] for at in rng.integers(0, 33, count)]
        may = part_footer.may_have_keys(wanted)
        assert all(may[at] for at, group in enumerate(groups) if group & set(wanted))


def test_groups_between_whose_keys_none_is_are_left_out(tmp_path):
    keys = [None, b"", b"a", b"b", b"d", b"d", b"d", b"f", b"f\xff"]
    rows = pa.table({"key": pa.array(keys, pa.binary()), "address": pa.array(range(9))})
    path = tmp_path / "part-0000000000.parquet"
    part_footer = footer_of(path, write_part(path, rows, ("key", "address")))

    def left(*wanted):
        return np.flatnonzero(part_footer.may_have_keys(wanted)).tolist()

    assert left(None) == [0]
    assert left(b"") == [0]
    assert left(b"c") == [1]
    assert left(b"d") == [1, 2]
    assert left(b"f\xff", b"a") == [0, 2]
    assert left(b"aa", b"g") == []
