"""Goal: parts whose files are only in the lake answer every read as those that are here.

Method: a stream's blocks are trimmed, so that its parts alone have its rows, and their files are
moved into a lake; or one of them is damaged there, or gone.
"""

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from storage_core import CorruptionError, InvalidRequestError, StreamReader, UnavailableError
from storage_core.lake.absent.lake_parts import CACHE_BYTES_VARIABLE
from storage_core.parts.part_home import local_files, open_part
from storage_core.sql import connect
from storage_core.sql.access.path_streams import PathStreams
from storage_core.sql.query_errors import verify_part_digests
from tests.lake.absent.away import lake_path, move_away
from tests.log.parts.parts_lab import NAME, PartsLab, rows_in, whole_rows
from tests.log.serve.served import serving

ROWS = 3000
COUNT = f'SELECT count(*), sum(address), sum("primary") FROM {NAME}'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a lab whose parts alone have its rows, closed."""
    lab = PartsLab(tmp_path_factory.mktemp("made"))
    lab.append(np.random.default_rng(7), ROWS)
    lab.stream.seal()
    lab.stream.trim()
    lab.stream.close()
    return lab


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def lab(made, tmp_path, lake):
    lab = made.copied_to(tmp_path / "root")
    lab.stream.alter(lake=str(lake))
    return lab


def sql(root, query=COUNT):
    with connect(root) as streams:
        return streams.sql(query).fetchall()


def test_rows_are_the_same_once_files_are_away(lab, lake):
    rows, answer = whole_rows(lab.root, "secondary"), sql(lab.root)
    assert move_away(lab.stream, lake)
    assert whole_rows(lab.root, "secondary") == rows
    assert sql(lab.root) == answer
    # What was brought is kept here: the store may be away from now on.
    lake.rename(lake.with_name("elsewhere"))
    assert whole_rows(lab.root, "secondary") == rows
    assert sql(lab.root) == answer


def test_server_answers_of_files_that_are_away(lab, lake):
    rows, answer = whole_rows(lab.root, "secondary"), sql(lab.root)
    move_away(lab.stream, lake)
    with serving(lab.root) as server:
        address = f"shardlog://{server.server.address}"
        assert sql(address) == answer
        with StreamReader.open(address, NAME) as reader:
            assert sum(
                batch.num_rows for n in reader.committed() for batch in reader.tail(n)
            ) == len(rows)


def test_store_that_is_away_is_named_with_the_rows_that_it_has(lab, lake):
    move_away(lab.stream, lake)
    elsewhere = lake.rename(lake.with_name("elsewhere"))
    with pytest.raises(UnavailableError, match="only in the lake") as raised:
        rows_in(lab.root, ["shard", "address"])
    assert raised.value.start is not None
    assert raised.value.end is not None
    elsewhere.rename(lake)
    assert len(rows_in(lab.root, ["shard", "address"])) == ROWS


def test_file_of_the_lake_that_differs_is_damage(lab, lake):
    part, *_ = move_away(lab.stream, lake)
    file = lake_path(lake, part)
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 3] ^= 1
    file.write_bytes(whole)
    with pytest.raises(CorruptionError, match="lake"), StreamReader.open(lab.root, NAME) as reader:
        list(reader.tail(part.shard))
    # Whoever asks for its bytes alone gets none of another file's.
    with pytest.raises(CorruptionError, match="differs at bytes"), closing(open_part(part)) as away:
        away.read(0, part.entry.size)


def test_copy_that_a_loss_of_power_has_damaged_is_made_anew(lab, lake):
    parts = move_away(lab.stream, lake)
    (copy, *_) = local_files(parts)
    whole = copy.read_bytes()
    copy.write_bytes(bytes(len(whole)))
    assert local_files(parts)[0].read_bytes() == whole


def test_verify_says_what_it_did_not_read_of_the_lake(lab, lake):
    parts = move_away(lab.stream, lake)
    report = lab.stream.verify()
    assert (report.is_clean, report.parts, report.parts_in_lake) == (True, 0, len(parts))
    assert any("only the lake has" in line for line in report.unchecked)
    whole = lab.stream.verify(reads_lake=True)
    assert (whole.is_clean, whole.parts, whole.parts_in_lake) == (True, len(parts), 0)
    assert (report.rows, whole.rows) == (0, ROWS)
    assert report.late_rows == 0 < whole.late_rows


def test_verify_tells_what_neither_this_machine_nor_the_lake_has(lab, lake):
    part, *_ = move_away(lab.stream, lake)
    lake_path(lake, part).unlink()
    (problem,) = lab.stream.verify().problems
    assert "missing" in problem.message
    assert (problem.start, problem.end) == (part.entry.first, part.entry.last + 1)


def test_rebuild_leaves_parts_that_the_lake_has(lab, lake):
    parts = move_away(lab.stream, lake)
    lab.stream.seal(rebuild=True)
    assert lab.stream.parts() == parts


def test_lake_of_parts_that_only_it_has_may_not_change(lab, lake):
    move_away(lab.stream, lake)
    with pytest.raises(InvalidRequestError, match="only the lake has"):
        lab.stream.alter(lake=None)
    lab.stream.alter(lake=str(lake), lake_lag=timedelta(seconds=5))


def test_pattern_of_places_is_refused_before_a_store_is_asked(lab, lake):
    move_away(lab.stream, lake)
    with pytest.raises(InvalidRequestError, match="has braces"):
        lab.stream.alter(lake="s3://bucket/{topic}")


def test_lake_may_move_to_a_copy_of_the_whole_table(lab, lake, tmp_path):
    move_away(lab.stream, lake)
    before = rows_in(lab.root, ["shard", "address"])
    copy = tmp_path / "copy"
    with pytest.raises(InvalidRequestError, match="name a place with a copy"):
        lab.stream.alter(lake=str(copy))
    lake.rename(copy)
    lab.stream.alter(lake=str(copy))
    assert rows_in(lab.root, ["shard", "address"]) == before
    assert not lab.stream.verify(reads_lake=True).problems


def test_lake_may_not_move_to_a_copy_that_lacks_a_file(lab, lake, tmp_path):
    move_away(lab.stream, lake)
    copy = tmp_path / "copy"
    copytree(lake, copy)
    next(copy.rglob("*.parquet")).unlink()
    with pytest.raises(InvalidRequestError, match=r"\(1\)"):
        lab.stream.alter(lake=str(copy))


def test_compaction_merges_parts_that_only_the_lake_has(tmp_path, lake):
    lab = PartsLab(tmp_path / "root", lake=str(lake))
    rng = np.random.default_rng(3)
    for _ in range(6):
        lab.append(rng, 50)
        lab.stream.seal()
    rows = lab.rows()
    parts = move_away(lab.stream, lake)
    lab.stream.compact()
    assert len(lab.stream.parts()) < len(parts)
    assert lab.rows() == rows


def flip(file):
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 3] ^= 1
    file.write_bytes(whole)


def lengthen(file):
    file.write_bytes(file.read_bytes() + b"\0")


def problems_of(lab):
    return [(one.start, one.end) for one in lab.stream.verify(reads_lake=True).problems]


@pytest.mark.parametrize("damage", [Path.unlink, flip, lengthen])
@pytest.mark.parametrize("cache_bytes", [None, 0])
def test_verify_proves_the_lake_whatever_is_kept_of_it_here(
    lab, lake, monkeypatch, damage, cache_bytes
):
    part, *_ = move_away(lab.stream, lake)
    whole_rows(lab.root, "secondary")
    local_files([part])
    if cache_bytes is not None:
        monkeypatch.setenv(CACHE_BYTES_VARIABLE, str(cache_bytes))
    assert problems_of(lab) == []
    damage(lake_path(lake, part))
    assert (part.entry.first, part.entry.last + 1) in problems_of(lab)


def test_verify_keeps_nothing_of_the_lake_here(lab, lake):
    move_away(lab.stream, lake)
    assert lab.stream.verify(reads_lake=True).is_clean
    with StreamReader.open(lab.root, NAME) as reader:
        assert reader.verify(reads_lake=True).is_clean
    assert not (lab.root / "~lake-cache").exists()


def test_digests_that_sql_compares_are_those_of_the_lake(lab, lake):
    part, *_ = move_away(lab.stream, lake)
    whole_rows(lab.root, "secondary")
    flip(lake_path(lake, part))
    with closing(PathStreams(lab.root)) as streams, pytest.raises(CorruptionError):
        verify_part_digests(streams, [NAME])


def test_without_a_cache_what_was_kept_is_not_read(lab, lake, monkeypatch):
    move_away(lab.stream, lake)
    rows = whole_rows(lab.root, "secondary")
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "0")
    assert whole_rows(lab.root, "secondary") == rows
    lake.rename(lake.with_name("elsewhere"))
    with pytest.raises(UnavailableError, match="only in the lake"):
        whole_rows(lab.root, "secondary")
