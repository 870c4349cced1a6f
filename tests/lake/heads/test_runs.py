"""Runs beside a table: what publishing writes so that a log can go on behind it."""

from dataclasses import replace
from pathlib import Path

import pytest

from storage_core import ForeignDataError, SchemaEntry
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_heads import no_heads
from storage_core.lake.heads.run_notes import RunSettings
from storage_core.lake.heads.runs import write_run
from tests.lake.heads.heads_lab import BORN, SHARD, HeadsLab
from tests.lake.support.stores import Store
from tests.log.workbench import batch_of


def test_runs_have_the_heads_of_what_is_published(root, store: Store) -> None:
    lab = HeadsLab(root, store)
    for start in range(BORN, 400, 100):
        lab.seal(start, start + 100).publish()
        lab.check()
    assert lab.ranges() == [(100, 200), (200, 300), (300, 400)]
    lab.release()


def test_runs_of_keys_have_all_of_them(root) -> None:
    lab = HeadsLab(root, key_mode="dictionary")
    lab.seal(BORN, 300).publish()
    lab.seal(300, 400).publish()
    lab.check()
    assert lab.read().heads.column("key").to_pylist()[:2] == [None, b"device-1"]
    lab.release()


def test_run_covers_addresses_that_have_no_row(lab: HeadsLab) -> None:
    lab.seal(150, 200).publish()
    lab.seal(250, 300).publish()
    assert lab.ranges() == [(100, 200), (200, 300)]
    lab.check()


def test_part_that_was_merged_over_the_published_address_is_counted_behind_it(lab) -> None:
    lab.seal(BORN, 150).publish()
    for start in range(150, 400, 50):
        lab.seal(start, start + 50)
    merged = lab.copy.stream.compact()
    assert any(part.entry.first < 150 <= part.entry.last for part in lab.copy.stream.parts()), (
        merged
    )
    lab.publish()
    assert lab.ranges() == [(100, 150), (150, 400)]
    lab.check()


def test_nothing_new_writes_no_run(lab: HeadsLab) -> None:
    for start in range(BORN, 400, 50):
        lab.seal(start, start + 50)
    lab.publish()
    before = lab.paths()
    lab.copy.stream.compact()
    assert lab.publish().commits == 1
    assert lab.paths() == before


def test_run_says_what_the_shard_is(root) -> None:
    lab = HeadsLab(root, jitter=5)
    entry = SchemaEntry(7, b"f" * 16, '"string"')
    letters = {120: b"\x00raw", 130: b""}
    lab.copy.stream.append_batch(
        batch_of([5], schema=[0]),
        shard=SHARD,
        addresses=[150],
        dead_letters=letters,
        schemas=[entry],
    )
    lab.copy.stream.commit()
    lab.copy.stream.seal()
    lab.publish()
    notes = lab.read().notes
    meta = lab.copy.stream.rows.shards.meta
    assert notes is not None
    assert notes.settings == RunSettings.of(meta)
    assert (notes.settings.unit, notes.settings.jitter) == ("ms", 5)
    assert notes.dead_letters == ((120, b"\x00raw"), (130, b""))
    assert notes.schemas == (entry,)
    lab.release()


def test_dead_letters_of_all_runs_are_told(lab: HeadsLab) -> None:
    lab.seal(BORN, 150, {110: b"a"}).publish()
    lab.seal(150, 200, {160: b"b"}).publish()
    notes = lab.read().notes
    assert notes is not None
    assert notes.dead_letters == ((110, b"a"), (160, b"b"))
    lab.check()


def test_run_beyond_what_is_published_is_passed_over(lab: HeadsLab) -> None:
    lab.seal(BORN, 200).publish()
    lab.seal(200, 300).publish()
    read = lab.read(end=200)
    assert read.missing == ()
    assert (read.heads.column("last").to_numpy() < 200).all()


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_damaged_run_counts_as_missing(lab: HeadsLab, victim: int) -> None:
    for start in range(BORN, 400, 100):
        lab.seal(start, start + 100).publish()
    path = lab.paths()[victim]
    lab.damage(path)
    read = lab.read()
    assert read.damaged == (path,)
    assert read.missing == (AddressRange(BORN + 100 * victim, BORN + 100 * victim + 100),)


def test_table_without_runs_lacks_all(lab: HeadsLab) -> None:
    lab.seal(BORN, 200).publish()
    for path in lab.paths():
        lab.store.delete(lab.target, path)
    read = lab.read()
    assert (read.notes, read.heads.num_rows) == (None, 0)
    assert read.missing == (AddressRange(BORN, 200),)


def test_runs_of_keys_and_of_ids_are_not_read_together(lab: HeadsLab, tmp_path: Path) -> None:
    lab.seal(BORN, 200).publish()
    notes = lab.read().notes
    assert notes is not None
    of_keys = replace(notes, settings=replace(notes.settings, key_mode="dictionary"))
    log = lab.table().owner(SHARD)
    assert log is not None
    heads = no_heads(has_keys=True)
    write_run(lab.table(), SHARD, 200, 300, log, heads, of_keys, tmp_path)
    with pytest.raises(ForeignDataError, match="several key_modes"):
        lab.read(end=300)
