"""Staging: the first manifest is the transaction, and a damaged file is told before its rows."""

import os

import pytest

from storage_core import CorruptionError, InvalidRequestError, TransactionId, UnavailableError
from storage_core.format.record import Rows
from storage_core.platform.durable_file import encode_document, read_document, replace_durably
from storage_core.testing import ManualClock
from storage_core.transactions.manifest import (
    ABANDONED_AFTER_S,
    MANIFEST_FILE,
    Manifest,
    Staging,
    begin_attempt,
    delete_abandoned,
    given_up_note,
    note_done,
    read_manifest,
    read_staged_rows,
    remove_attempts,
    remove_transaction,
    staged_transactions,
    write_manifest,
)
from storage_core.transactions.series import id_of_name, read_mark
from storage_core.transactions.staged_rows import StagedRowsWriter
from tests.unit.storage_core.format.test_block import three_rows
from tests.waiting import await_that


@pytest.fixture
def staging(root):
    return Staging(root, ManualClock())


def staged(staging: Staging, name: str, *parts: Rows, shard: int = 0) -> Manifest:
    """Stage rows of one shard in their order, and make them the transaction."""
    writer = StagedRowsWriter(lambda: begin_attempt(staging, name), 0, keeps_order=True)
    for part in parts:
        writer.buffer(part)
    return write_manifest(staging, name, {shard: writer.finish().get(0, ())})


def primaries(manifest: Manifest, shard: int = 0) -> list[int]:
    parts = read_staged_rows(manifest, shard)
    return [primary for part in parts for primary in part.primary.tolist()]


def test_first_manifest_wins(staging):
    first = staged(staging, "t", three_rows())
    second = staged(staging, "t", three_rows(), three_rows())
    assert second == first
    assert primaries(second) == [1, 2, 3]


def test_rows_of_a_transaction_that_gave_way_to_a_later_one_are_called_removed(staging):
    manifest = staged(staging, "t", three_rows())
    remove_transaction(manifest.directory)
    later = staged(staging, "t", three_rows())
    # Who was told of damage would give the later one up.
    with pytest.raises(UnavailableError, match=r"'t' were removed.*shard 0"):
        primaries(manifest)
    assert primaries(later) == [1, 2, 3]


def test_rows_that_are_removed_while_they_are_read_are_called_removed(staging):
    manifest = staged(staging, "t", three_rows(), three_rows(key=three_rows().payload))
    parts = read_staged_rows(manifest, 0)
    next(parts)
    remove_transaction(manifest.directory)
    with pytest.raises(UnavailableError, match=r"'t' were removed.*shard 0"):
        next(parts)


def test_file_that_goes_missing_while_it_is_read_is_told(staging):
    manifest = staged(staging, "t", three_rows(), three_rows(key=three_rows().payload))
    parts = read_staged_rows(manifest, 0)
    next(parts)
    (manifest.directory / manifest.shards[0][0].file).unlink()
    with pytest.raises(CorruptionError, match="'t' is missing or damaged"):
        next(parts)


def test_removed_attempt_leaves_others_of_its_transaction(root, staging):
    mine, other = begin_attempt(staging, "t"), begin_attempt(staging, "t")
    remove_attempts(mine.parent, [mine.name])
    assert (mine.exists(), other.exists()) == (False, True)
    remove_attempts(other.parent, [other.name])
    assert list(root.iterdir()) == []


def test_staging_goes_when_the_last_shard_is_done(root, staging):
    manifest = write_manifest(staging, "t", {0: (), 2: ()})
    note_done(staging, manifest, [0])
    assert read_manifest(manifest.directory) == manifest
    note_done(staging, manifest, [2])
    assert list(root.iterdir()) == []


def test_finisher_that_comes_late_clears_no_later_transaction_of_the_id(staging):
    manifest = staged(staging, "t", three_rows())
    remove_transaction(manifest.directory)
    later = staged(staging, "t", three_rows())
    note_done(staging, manifest, [0])
    assert later.is_published
    assert list(later.directory.glob("done-*")) == []


def test_notes_of_an_earlier_transaction_of_the_id_do_not_count(staging):
    attempt = begin_attempt(staging, "t")
    (attempt.parent / "done-0000").touch()
    manifest = write_manifest(staging, "t", {0: (), 1: ()})
    note_done(staging, manifest, [1])
    assert manifest.is_published
    assert staged(staging, "t", three_rows()) == manifest
    note_done(staging, manifest, [0])
    assert not manifest.is_published


def test_manifest_goes_though_the_rest_cannot(root):
    manifest = staged(Staging(root / "elsewhere", ManualClock()), "t", three_rows())
    (root / "staging").mkdir()
    directory = root / "staging" / manifest.directory.name
    directory.symlink_to(manifest.directory)
    remove_transaction(directory)
    assert directory.exists()
    assert not manifest.is_published


def test_note_that_it_was_given_up_goes_before_the_manifest(staging):
    manifest = staged(staging, "t", three_rows())
    cannot_go = given_up_note(manifest.directory)
    cannot_go.mkdir()
    with pytest.raises(OSError, match=cannot_go.name):
        remove_transaction(manifest.directory)
    assert manifest.is_published


def test_mark_is_written_before_the_manifest_goes(bench):
    staging = Staging(bench.staging, ManualClock())
    manifest = write_manifest(staging, TransactionId("app", 1), {0: ()})
    in_the_way = bench.directory / "series"
    in_the_way.touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        note_done(staging, manifest, [0])
    assert manifest.is_published
    in_the_way.unlink()
    note_done(staging, manifest, [0])
    mark = read_mark(bench.directory, "app")
    assert mark is not None
    assert (manifest.is_published, mark.number) == (False, 1)


@pytest.mark.parametrize("series", ["a/3", "a/0", "/3", "a/3/4"])
def test_id_without_a_number_never_has_the_name_of_one_with(series):
    with pytest.raises(InvalidRequestError, match="is the id of a number in a series"):
        TransactionId(series)


@pytest.mark.parametrize("series", ["a", "a/", "a/x3", "a/03", "3", "a/3/"])
def test_name_of_a_number_gives_its_id_back(series):
    assert id_of_name(TransactionId(series).name) is None
    assert id_of_name(TransactionId(series, 7).name) == TransactionId(series, 7)


def test_id_without_a_number_that_was_staged_under_a_name_of_one_is_still_read(staging):
    manifest = staged(staging, "staged:a/3", three_rows())
    fields = read_document(manifest.directory / MANIFEST_FILE) | {"series": "a/3", "number": None}
    replace_durably(manifest.directory / MANIFEST_FILE, encode_document(fields))
    assert read_manifest(manifest.directory) == manifest


def test_removing_what_is_not_there_is_quiet(root):
    gone = Staging(root / "gone", ManualClock())
    remove_transaction(gone.directory / "t")
    assert list(staged_transactions(gone)) == []
    assert delete_abandoned(gone) == 0


@pytest.mark.parametrize(("age_s", "swept"), [(-60, 0), (60, 1)])
def test_abandoned_attempt_is_deleted_after_its_age_only(age_s, swept, staging):
    attempt = begin_attempt(staging, "t")
    made_s = staging.clock.now_ns() / 10**9 - ABANDONED_AFTER_S - age_s
    for path in (attempt, attempt.parent):
        os.utime(path, (made_s, made_s))
    # A child that another thread forks holds the lock until it begins: nothing is swept then.
    if swept:
        await_that(lambda: delete_abandoned(staging) == swept, "a sweep with the lock")
    assert delete_abandoned(staging) == 0
    assert attempt.exists() == (not swept)


def test_attempt_that_is_still_written_to_is_not_abandoned(root, staging):
    attempt = begin_attempt(staging, "t")
    for path in (attempt, attempt.parent):
        os.utime(path, (0, 0))
    (attempt / "rows.arrow").touch()
    now_s = (attempt / "rows.arrow").stat().st_mtime
    assert delete_abandoned(Staging(root, ManualClock(wall_ns=int(now_s * 10**9)))) == 0


def test_published_transaction_is_never_swept(staging):
    manifest = staged(staging, "t", three_rows())
    os.utime(manifest.directory, (0, 0))
    assert delete_abandoned(staging) == 0
    assert primaries(manifest) == [1, 2, 3]


@pytest.mark.parametrize("name", ["a", "a/b", "..", "ü" * 256, " ", "a" * 512])
def test_any_printable_text_names_a_transaction_inside_staging(bench, name):
    with bench.stream.transaction(name, 0):
        assert Staging(bench.staging, ManualClock()).of(name).parent == bench.staging
    assert bench.remembered() == [name]


@pytest.mark.parametrize(
    "name", ["", "staged:a", "a" * 513, "ü" * 257, "a\x00", "a\n", "\ud800", None, 5, b"a"]
)
def test_text_that_cannot_be_kept_names_no_transaction(bench, name):
    with pytest.raises(InvalidRequestError, match="a transaction's id is text"):
        bench.stream.transaction(name, 1)
