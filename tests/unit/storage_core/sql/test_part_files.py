"""Goal: an answer of SQL over a damaged part is the right one, or an error that names the part.

Method: a bit of a part differs, one place after the other: in each of its chunks, in bloom filters,
page index, magic and foot. Queries that need all of it, or skip by bloom filters, then answer what
they answered before, or tell the file and its addresses.
"""

import contextlib
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from subprocess import run

import numpy as np
import pytest

from storage_core import CorruptionError, InvalidRequestError, Stream, StreamOptions, StreamReader
from storage_core.parts.footer import footer_of
from storage_core.parts.part_home import opener_of
from storage_core.sql import connect, part_files, query_batches
from storage_core.sql.part_files import ListedPart, PartFiles
from tests.log.parts.parts_lab import NAME, PartsLab
from tests.thin import rounds

PLACES = rounds("SHARDLOG_FAULT_COLD", few=8, many=60)
# In three groups of rows.
ORDERS = 20_000
ALL = f'SELECT count(*), sum("primary"), sum(address), sum(hash(number) % 100003) FROM {NAME}'
ONE = f"SELECT address FROM {NAME} WHERE number = 'order-13007'"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    lab = PartsLab(tmp_path_factory.mktemp("made"))
    lab.append_orders(ORDERS)
    lab.stream.seal()
    lab.stream.trim()
    lab.stream.close()
    return lab.root


@pytest.fixture
def root(made, tmp_path):
    return shutil.copytree(made, tmp_path / "root")


def part_of(root):
    with StreamReader.open(root, NAME) as reader:
        (part,) = reader.parts()
    return part


def answers(root, *queries, **options):
    with connect(root, **options) as streams:
        return [streams.sql(query).fetchall() for query in queries]


def other_bit(path, place):
    with path.open("r+b", buffering=0) as file:
        (before,) = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([before ^ (1 << place % 8)]), place)


def regions(part):
    """Return the places of what a part's file consists of."""
    entry = part.entry
    table = footer_of(part.path, entry.proof).table
    in_chunks = [
        offset
        for first, size in zip(table.offsets.tolist(), table.sizes.tolist(), strict=True)
        for offset in (first, first + size // 2, first + size - 1)
    ]
    assert table.outside is not None
    outside = np.concatenate(
        [
            np.arange(first, first + size)
            for first, size in zip(
                table.outside.offsets.tolist(), table.outside.sizes.tolist(), strict=True
            )
        ]
    ).tolist()
    return {
        "chunks": in_chunks,
        "outside": outside,
        "foot": range(entry.size - entry.footer_bytes, entry.size),
    }


def rows_or_error(root, query, **options):
    try:
        _, batches = query_batches(root, query, **options)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    except CorruptionError as error:
        return error


@pytest.mark.parametrize("region", ["chunks", "outside", "foot"])
def test_bit_that_differs_is_told_or_changes_no_answer(root, region):
    part, right = part_of(root), answers(root, ALL, ONE)
    rng = np.random.default_rng(len(region))
    errors = 0
    for place in rng.choice(regions(part)[region], PLACES).tolist():
        other_bit(part.path, place)
        for query, expected in zip((ALL, ONE), right, strict=True):
            answer = rows_or_error(root, query)
            if isinstance(answer, CorruptionError):
                errors += 1
                assert (answer.stream, answer.shard, answer.path) == (NAME, part.shard, part.path)
                assert (answer.start, answer.end) == (0, ORDERS)
            else:
                assert answer == expected, place
        other_bit(part.path, place)
    assert errors or region == "outside"


def test_bit_of_a_bloom_filter_hides_no_row(root):
    part, (right,) = part_of(root), answers(root, ONE)
    assert right
    outside = regions(part)["outside"]
    # Whole blocks of filters, so that each query meets them.
    for place in outside[100 : len(outside) : len(outside) // 4]:
        other_bit(part.path, place)
        answer = rows_or_error(root, ONE)
        assert isinstance(answer, CorruptionError) or answer == right, place
        other_bit(part.path, place)


def test_answers_may_differ_where_nothing_is_verified(root):
    part, (right,) = part_of(root), answers(root, ALL)
    assert answers(root, ALL, verify_checksums=False) == [right]
    table = footer_of(part.path, part.entry.proof).table
    other_bit(part.path, int(table.offsets[table.sizes.argmax()]) + 100)
    with pytest.raises(CorruptionError):
        query_batches(root, ALL)
    # What DuckDB cannot decode is compared with its digest, and told.
    answer = rows_or_error(root, ALL, verify_checksums=False)
    assert not isinstance(answer, CorruptionError) or answer.path == part.path


def test_damage_that_comes_later_is_told_or_changes_no_answer(root):
    part, (right, right_of_all) = part_of(root), answers(root, ONE, ALL)
    with connect(root) as streams:
        assert streams.sql(ONE).fetchall() == right
        part.path.write_bytes(bytes(part.entry.size))
        # What it rests on was read and proven before.
        assert streams.sql(ONE).fetchall() == right
        with contextlib.suppress(CorruptionError):
            assert streams.sql(ALL).fetchall() == right_of_all


@pytest.mark.parametrize("verify_checksums", [True, False])
def test_part_that_was_damaged_is_read_anew_once_it_is_restored(root, verify_checksums):
    part, (right,) = part_of(root), answers(root, ALL)
    whole = part.path.read_bytes()
    begin, end = len(whole) // 8, len(whole) // 2
    with connect(root, verify_checksums=verify_checksums) as streams:
        part.path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
        with pytest.raises(CorruptionError):
            streams.sql(ALL).fetchall()
        part.path.write_bytes(whole)
        if not verify_checksums:
            streams.refresh()
        assert streams.sql(ALL).fetchall() == right


def test_part_that_ends_early_or_is_longer_is_told_or_changes_nothing(root):
    part, (right,) = part_of(root), answers(root, ALL)
    whole = part.path.read_bytes()
    part.path.write_bytes(whole + b"more")
    # The columns of this part are known to this process, and it looks no further than its end.
    assert answers(root, ALL) == [right]
    part.path.write_bytes(whole[:-1])
    with pytest.raises(CorruptionError, match=part.path.name):
        query_batches(root, ALL)
    part.path.write_bytes(whole)
    assert answers(root, ALL) == [right]


def test_what_is_kept_of_proven_bytes_is_bounded(root, monkeypatch):
    right = answers(root, ALL, ONE)
    monkeypatch.setattr(part_files, "CACHE_BYTES_MAX", 2**16)
    with connect(root) as streams:
        assert [streams.sql(query).fetchall() for query in (ALL, ONE)] == right
        cache = streams._files._cache
        assert cache._bytes == sum(size for _, size in cache._entries.values())
        assert cache._bytes <= 2**16


@pytest.fixture
def large(tmp_path):
    """A part whose chunks of payloads are larger than what is kept of proven bytes."""
    payloads = [os.urandom(2**20) for _ in range(4)]
    with Stream.create(tmp_path, NAME, StreamOptions(shards=1)) as stream:
        for number, payload in enumerate(payloads):
            stream.append(number, number, payload)
        stream.commit()
        stream.seal()
    return tmp_path, payloads


def test_chunks_larger_than_what_is_kept_are_proven_and_read_a_bounded_number_of_times(
    large, monkeypatch
):
    root, payloads = large
    monkeypatch.setattr(part_files, "CACHE_BYTES_MAX", 2**18)
    read, sizes = os.pread, []

    def counted(file, size, begin):
        sizes.append(size)
        return read(file, size, begin)

    monkeypatch.setattr(os, "pread", counted)
    query = f"SELECT md5(payload) FROM {NAME} ORDER BY address"
    (answer,) = answers(root, query)
    assert [value for (value,) in answer] == [md5(value).hexdigest() for value in payloads]  # noqa: S324 - as DuckDB has it
    assert sum(sizes) < 3 * part_of(root).entry.size
    other_bit(part_of(root).path, 2**20)
    assert isinstance(rows_or_error(root, query), CorruptionError)


def test_what_is_too_large_to_be_kept_takes_the_place_of_nothing(monkeypatch):
    monkeypatch.setattr(part_files, "CACHE_BYTES_MAX", 100)
    cache = part_files._Cache()
    cache.put(("small", 0), b"x" * 60, 60)
    cache.put(("large", 0), b"x" * 101, 101)
    assert cache.get(("small", 0)) is not None
    cache.put(("as large as may be", 0), b"x" * 100, 100)
    assert [*cache._entries] == [("as large as may be", 0)]


def test_several_threads_read_many_parts_right(tmp_path):
    lab = PartsLab(tmp_path, block_records=64)
    rng = np.random.default_rng(9)
    for _ in range(8):
        lab.append(rng, 300)
        lab.stream.seal()
    query = f"SELECT shard, address, state FROM {NAME} ORDER BY ALL"
    expected = [(row["shard"], row["address"], row["state"]) for row in lab.rows()]
    with connect(tmp_path) as streams:
        for _ in range(3):
            assert streams.sql(query).fetchall() == sorted(expected)
    lab.stream.close()


def test_handle_that_threads_share_gives_each_what_it_sought(root):
    part = part_of(root)
    whole = part.path.read_bytes()
    files = PartFiles(verify_checksums=True)
    listed = ListedPart(NAME, part.shard, part.path, part.entry, opener_of(part))
    with files.listing(NAME, [listed]):
        pass
    handle = files.open(listed.url, "rb")

    def read(begin, size):
        handle.seek(begin)
        return handle.read(size)

    with ThreadPoolExecutor(1) as another:
        handle.seek(1000)
        assert another.submit(read, 20_000, 30_000).result() == whole[20_000:50_000]
        assert handle.read(100) == whole[1000:1100]
    handle.close()


def test_read_gives_all_that_it_is_asked_for_or_an_error(root):
    part = part_of(root)
    files = PartFiles(verify_checksums=True)
    listed = ListedPart(NAME, part.shard, part.path, part.entry, opener_of(part))
    with files.listing(NAME, [listed]):
        pass
    handle = files.open(listed.url, "rb")
    handle.seek(part.entry.size - 10)
    with pytest.raises(CorruptionError, match="beyond the end"):
        handle.read(11)
    for mode in ("wb", "r+b", "ab", "w+b"):
        with pytest.raises(InvalidRequestError, match="writes no file"):
            files.open(listed.url, mode)
    files.forget(NAME)
    with pytest.raises(InvalidRequestError):
        files.open(listed.url, "rb")
    handle.close()


# DuckDB's threads let go of files behind the rows of a query: a slow close stands for the latest
# moment that may be. Nothing waits for it.
FILES_CLOSE_LATE = """
import time
from storage_core.sql.part_files import PartHandle
close = PartHandle.close
PartHandle.close = lambda handle: (time.sleep(0.05), close(handle))
"""


@pytest.mark.parametrize("before", ["", FILES_CLOSE_LATE], ids=["as it comes", "files close late"])
def test_process_ends_though_nobody_closed_what_it_asked(root, before):
    program = f"""{before}
from storage_core.sql import connect
streams = connect({str(root)!r})
relation = streams.sql({ALL!r})
print(relation.fetchall()[0][0])
"""
    ran = run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{ORDERS}\n", "")


def test_part_that_seal_mends_is_read_again(tmp_path):
    lab = PartsLab(tmp_path)
    lab.append_orders(100)
    lab.stream.seal()
    (part,) = lab.stream.parts()
    other_bit(part.path, part.entry.size // 3)
    with pytest.raises(CorruptionError):
        query_batches(tmp_path, ALL)
    lab.stream.close()
    with Stream.open(tmp_path, NAME) as stream:
        stream.seal(rebuild=True)
    assert answers(tmp_path, f"SELECT count(*) FROM {NAME}") == [[(100,)]]


def test_large_chunk_that_is_damaged_between_two_portions_is_told(large, monkeypatch):
    root, _ = large
    monkeypatch.setattr(part_files, "CACHE_BYTES_MAX", 2**18)
    part, files = part_of(root), PartFiles(verify_checksums=True)
    listed = ListedPart(NAME, part.shard, part.path, part.entry, opener_of(part))
    with files.listing(NAME, [listed]):
        pass
    handle = files.open(listed.url, "rb")
    whole = part.path.read_bytes()
    for place in (2**20 + 1, 3 * 2**20):
        handle.seek(place)
        assert handle.read(1000) == whole[place : place + 1000]
    other_bit(part.path, 3 * 2**20)
    handle.seek(2**20)
    assert handle.read(1000) == whole[2**20 : 2**20 + 1000]
    handle.seek(3 * 2**20 - 500)
    with pytest.raises(CorruptionError, match="as they were published"):
        handle.read(1000)
    handle.close()
