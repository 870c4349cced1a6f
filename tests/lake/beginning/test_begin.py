"""A log that begins from its table shows what a single owner would, and goes on as that one."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import islice

import pytest

from storage_core import StreamReader
from storage_core.lake import LakeOwnerError, lake_positions
from storage_core.lake.beginning import begin
from storage_core.lake.beginning.joined_zones import zones_of
from storage_core.lake.heads.runs import read_runs
from storage_core.lake.options_file import LAKE_OPTIONS_VARIABLE
from tests.lake.beginning.beginning_lab import BORN, DAY_MS, NAME, SHARD, BeginningLab
from tests.log.parts.parts_lab import FIRST_MS
from tests.log.workbench import batch_of, column_of

MakeLab = Callable[..., BeginningLab]


@pytest.fixture(params=["none", "dictionary"])
def any_lab(request: pytest.FixtureRequest, make_lab: MakeLab) -> BeginningLab:
    return make_lab(key_mode=request.param)


def test_heir_shows_what_the_owner_published(any_lab):
    any_lab.published(150, 150, 150)
    any_lab.lose_owner()
    begun = any_lab.take_over()
    assert (begun.start, begun.archived) == (BORN, False)
    any_lab.check()
    assert {"late", "ahead"} <= any_lab.states()
    assert any_lab.problems() == []


def test_heir_judges_what_comes_then_as_a_single_owner_would(any_lab):
    any_lab.published(150, 150)
    any_lab.take_over()
    for _ in range(3):
        any_lab.append(80)
    any_lab.check()
    any_lab.reopen()
    any_lab.check()
    assert any_lab.problems() == []


def test_heir_of_an_heir_goes_on_from_both(any_lab):
    for _ in range(3):
        any_lab.published(60, 60)
        any_lab.lose_owner()
        any_lab.take_over()
        any_lab.check()
    any_lab.append(60)
    any_lab.check()
    assert any_lab.problems() == []


def test_heir_publishes_nothing_before_it_has_rows_of_its_own(lab):
    lab.published(150, 150)
    lab.take_over()
    done = lab.publish()
    assert (done.rows, done.files_added, done.files_removed) == (0, 0, 0)
    lab.fill(100)
    done = lab.publish()
    assert done.rows > 0
    assert done.files_removed == 0
    lab.check()


def test_what_the_heir_seals_trims_and_merges_is_mirrored(any_lab):
    any_lab.published(60, 60, 60)
    any_lab.take_over()
    any_lab.published(60, 60, 60)
    stream = any_lab.owner.stream
    stream.trim()
    any_lab.check()
    stream.compact()
    any_lab.check()
    any_lab.publish()
    any_lab.check()
    assert any_lab.problems() == []
    assert any_lab.addresses() == any_lab.witness_addresses()


def test_rows_that_had_expired_stay_so(any_lab):
    any_lab.published(150, 150, 150)
    any_lab.expire(200)
    any_lab.published(100)
    any_lab.lose_owner()
    begun = any_lab.take_over()
    assert begun.start > BORN
    assert any_lab.lake_problems() == []
    any_lab.check()
    any_lab.append(100)
    any_lab.check()
    assert any_lab.problems() == []


def test_heir_lets_rows_expire_that_the_owner_published(any_lab):
    any_lab.published(150, 150, 150)
    any_lab.take_over()
    any_lab.published(100)
    files = len(any_lab.files())
    any_lab.expire(120)
    any_lab.check()
    any_lab.owner.stream.maintain()
    any_lab.check()
    any_lab.publish()
    assert len(any_lab.files()) < files
    any_lab.check()
    assert any_lab.problems() == []


def test_files_that_were_rewritten_become_parts_again(make_lab):
    lab = make_lab()
    lab.fill(200)
    lab.expire(120)
    lab.published(100)
    assert any(len(path.stem.split("-")) > 3 for path in lab.files())
    lab.take_over()
    lab.check()
    lab.publish()
    lab.check()
    assert lab.addresses() == lab.witness_addresses()
    assert lab.problems() == []


def test_root_that_had_the_shard_before_begins_anew(lab):
    lab.published(100)
    first = lab.owner
    lab.take_over()
    lab.published(100)
    begun = lab.take_over(first)
    assert begun.archived
    lab.check()
    lab.append(50)
    lab.check()
    assert lab.problems() == []


def test_table_tells_whose_log_may_go_on(lab):
    lab.published(100)
    first, heir = lab.owner, lab.new_root()
    assert lake_positions(heir.root, NAME, [SHARD, 4])[SHARD].is_own is False
    lab.take_over(heir)
    positions = lake_positions(heir.root, NAME, [SHARD, 4])
    assert list(positions) == [SHARD]
    assert positions[SHARD].is_own
    lab.published(50)
    assert lake_positions(first.root, NAME, [SHARD])[SHARD].is_own is False
    assert lake_positions(heir.root, NAME, [SHARD])[SHARD].is_own


def test_owner_before_is_refused_once_the_heir_has_published(lab):
    lab.published(100)
    first, heir = lab.owner, lab.new_root()
    lab.take_over(heir)
    first.open()
    assert first.publish().commits == 0
    lab.publish()
    with pytest.raises(LakeOwnerError, match="another log publishes this shard"):
        first.publish()
    first.stream.close()


def test_owner_that_publishes_meanwhile_is_followed(lab, monkeypatch):
    lab.published(40, 40)
    publishes = iter([40, 40])

    def publishing(*arguments):
        for count in islice(publishes, 1):
            lab.published(count)
        return read_runs(*arguments)

    monkeypatch.setattr(begin, "read_runs", publishing)
    begun = lab.take_over()
    assert begun.rows == 160
    lab.check()


def test_owner_that_merges_files_meanwhile_takes_none_from_the_heir(lab):
    lab.published(40, 40, 40, 40, 40, 40)
    first, heir = lab.owner, lab.new_root()
    lab.take_over(heir)
    first.open()
    first.stream.compact()
    assert first.publish().files_removed > 0
    first.stream.close()
    lab.check()
    lab.publish()
    lab.check()
    assert lab.lake_problems() == []
    assert lab.addresses() == lab.witness_addresses()


def test_rows_are_capped_as_a_single_owner_caps_them(make_lab):
    lab = make_lab(records_max=220)
    lab.published(100, 100)
    lab.take_over()
    lab.published(100)
    lab.expire(10_000)
    lab.check()
    lab.published(40)
    lab.expire(10_000)
    lab.check()
    assert lab.problems() == []


def test_other_programs_see_the_heir_s_rows(any_lab):
    any_lab.published(150)
    any_lab.take_over()
    any_lab.append(50)
    assert any_lab.sql(any_lab.owner) == any_lab.sql(any_lab.witness)


def test_partition_moves_over_a_bucket(make_lab, bucket_store, monkeypatch, tmp_path):
    options = tmp_path / "options.toml"
    options.write_text("".join(f'{k} = "{v}"\n' for k, v in bucket_store.options.items()))
    monkeypatch.setenv(LAKE_OPTIONS_VARIABLE, str(options))
    lab = make_lab(target=bucket_store.target())
    lab.published(100, 100)
    lab.lose_owner()
    lab.take_over()
    lab.check()
    lab.append(50)
    lab.check()


def test_source_goes_on_where_the_table_ends(lab):
    lab.published(100)
    begun = lab.take_over()
    with StreamReader.open(lab.owner.root, NAME) as reader:
        assert reader.source(SHARD) == {"next": begun.end}
        assert reader.committed() == {SHARD: begun.end}


def test_files_go_from_the_heir_as_from_any_owner(make_lab):
    lab = make_lab(keep_local=timedelta(0))
    lab.published(100, 100)
    lab.take_over()
    lab.published(100)
    lab.owner.stream.trim()
    lab.publish()
    assert not list(lab.owner.root.rglob("*.rows"))
    lab.check()
    assert lab.problems() == []


def test_values_of_many_schemas_expire_in_steps(make_lab, monkeypatch):
    monkeypatch.setattr(begin, "zones_of", partial(zones_of, rows_max=40))
    lab = make_lab(key_mode="dictionary")
    for _ in range(12):
        lab.fill(40)
        lab.owner.stream.compact()
    lab.publish()
    lab.take_over()
    lab.check()
    assert lab.problems() == []
    starts = []
    for rows in (400, 200):
        lab.expire(rows)
        lab.owner.stream.maintain()
        starts.append(lab.start())
        lab.check()
    assert BORN < starts[0] < starts[1]
    lab.fill(40)
    lab.publish()
    lab.check()
    assert lab.problems() == []


def test_rows_that_all_came_ahead_of_the_clock_expire_in_steps(lab, monkeypatch):
    monkeypatch.setattr(begin, "zones_of", partial(zones_of, rows_max=20))
    first = FIRST_MS + 40 * DAY_MS
    rows = batch_of([first + minute * 60_000 for minute in range(100)], secondary=7)
    for root in (lab.owner, lab.witness):
        root.stream.append_batch(rows, shard=SHARD, addresses=list(range(BORN, BORN + 100)))
        root.stream.commit()
    lab.owner.stream.seal()
    lab.publish()
    lab.take_over()
    lab.check()
    for minutes in (40, 80, 200):
        assert lab.expire_below(first + minutes * 60_000) > 0
        lab.owner.stream.maintain()
        lab.check()
        assert lab.problems() == []


def test_partition_may_have_nothing_but_dead_letters(lab):
    for root in (lab.owner, lab.witness):
        dead_letters = {BORN: b"poison", BORN + 5: b"poison too"}
        root.stream.append_batch(
            batch_of([]),
            shard=SHARD,
            addresses=[],
            dead_letters=dead_letters,
            source={"next": BORN + 9},
        )
        root.stream.commit()
    lab.owner.stream.seal()
    lab.publish()
    begun = lab.take_over()
    assert (begun.start, begun.end, begun.files) == (BORN, BORN + 9, 0)
    lab.check()
    assert lab.problems() == []


def test_one_file_may_reach_over_years(make_lab):
    lab = make_lab()
    lab.append_years(40)
    lab.owner.stream.seal()
    lab.publish()
    lab.take_over()
    lab.check()
    assert lab.problems() == []


def test_offsets_that_the_source_had_no_more_are_told_by_the_heir(lab):
    lab.published(50)
    lab.skip(500)
    lab.published(50)
    end = lab.skip(500)
    lab.published(50)
    lab.lose_owner()
    lab.take_over()
    lab.check()
    assert [gap[1] for gap in lab.owner.stream.gaps()[SHARD]][-1] == end
    assert lab.problems() == []
    lab.append(50)
    lab.check()


@pytest.mark.parametrize(
    ("key_mode", "columns"),
    [
        ("dictionary", {"key": [b"", None, b"k" * 65_535, b"\xff" * 65_535, b"a", b"a\x00", b""]}),
        ("none", {"secondary": [-(2**31), 2**31 - 1, 0, -1, 1, 0, 2**31 - 1]}),
    ],
)
def test_keys_and_ids_may_be_any(make_lab, key_mode, columns):
    lab = make_lab(key_mode=key_mode, retention=None)
    for _ in range(3):
        lab.append_columns(columns)
        lab.owner.stream.seal()
        lab.publish()
    lab.lose_owner()
    lab.take_over()
    lab.check()
    lab.append_columns(columns)
    lab.check()
    assert lab.problems() == []


def test_archived_log_that_began_from_the_lake_is_read_from_there(lab):
    lab.published(100)
    first = lab.owner
    lab.take_over()
    rows = lab.witness_addresses()
    second = lab.owner
    lab.published(40)
    lab.take_over(first)
    lab.published(40)
    lab.take_over(second)
    (archived,) = lab.archived()
    with StreamReader.open(second.root, NAME, archived=archived.lineage) as reader:
        addresses = sorted(column_of(reader.read(columns=["address"]), "address"))
    assert addresses[: len(rows)] == rows
