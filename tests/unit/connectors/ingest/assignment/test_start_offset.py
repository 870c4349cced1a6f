"""Where a shard goes on, and when it must not: what the group and the broker say decides."""

import pytest

from connectors.group.home_mark import HomeMark, decode_home_mark
from connectors.ingest.assignment.start_offset import (
    check_group_offset,
    check_watermarks,
    out_of_range,
)
from connectors.kafka import Place
from storage_core import ForeignDataError

OURS = HomeMark("root-a", "lineage-1")
PLACE = ("orders", 3)


def judge(group_offset, mark, home=OURS, *, shard_next=10, **more):
    committed = Place(group_offset, metadata="" if mark is None else mark.encode())
    return check_group_offset(
        PLACE, shard_next, committed, home, **{"adopt": False, "dropped": (), **more}
    )


def test_mark_comes_back_from_metadata():
    assert decode_home_mark(OURS.encode()) == OURS


def test_nul_that_a_client_leaves_behind_the_mark_is_no_part_of_it():
    assert decode_home_mark(OURS.encode() + "\0") == OURS


@pytest.mark.parametrize("metadata", ["", "x", "shardlog:only", "other:a:b", "shardlog:a:b:c"])
def test_metadata_of_others_is_no_mark(metadata):
    assert decode_home_mark(metadata) is None


def test_group_behind_the_shard_is_no_concern():
    assert judge(10, HomeMark("root-z", "lineage-z")) == "go on"


def test_group_ahead_with_another_lineage_means_the_data_lies_elsewhere():
    with pytest.raises(ForeignDataError, match=r"root root-z.*shard 3"):
        judge(11, HomeMark("root-z", "lineage-z"))


def test_shard_that_is_not_there_yet_is_not_made_where_data_lies_elsewhere():
    with pytest.raises(ForeignDataError, match="its data lies in root root-a"):
        judge(11, OURS, home=None, shard_next=0)


@pytest.mark.parametrize("home", [None, OURS])
def test_group_of_a_shard_that_was_dropped_here_goes_on(home):
    was = HomeMark(OURS.root_id, "lineage-0")
    assert judge(11, was, home, dropped={"lineage-0"}) == "go on"
    with pytest.raises(ForeignDataError):
        judge(11, was, home, dropped={"lineage-2"})


def test_copy_of_a_root_that_went_on_is_refused():
    with pytest.raises(ForeignDataError, match=r"copy of root-b.*adopt=true"):
        judge(11, HomeMark("root-b", OURS.lineage))


def test_group_ahead_with_another_lineage_goes_on_where_the_lake_has_its_rows():
    assert judge(11, HomeMark("root-z", "lineage-z"), has_lake=True) == "go on"
    with pytest.raises(ForeignDataError, match="copy of root-b"):
        judge(11, HomeMark("root-b", OURS.lineage), has_lake=True)


def test_copy_of_a_root_goes_on_once_it_is_adopted():
    assert judge(11, HomeMark("root-b", OURS.lineage), adopt=True) == "go on"


def test_store_that_was_set_back_fetches_again():
    assert judge(11, OURS) == "go on"


@pytest.mark.parametrize("moved_to", [0, 9, 11])
def test_group_offset_moved_by_others_is_ignored(moved_to):
    assert judge(moved_to, None) == "ignored"


def test_group_offset_that_differs_in_nothing_is_nobodys_doing():
    assert judge(10, None) == "go on"


def test_partition_that_holds_what_comes_next_has_no_gap():
    assert check_watermarks(10, (0, 20), PLACE) is None
    assert check_watermarks(10, (10, 10), PLACE) is None


def test_retention_above_the_shard_is_a_gap():
    assert check_watermarks(10, (15, 20), PLACE) == (10, 15)


def test_partition_that_ends_below_the_shard_was_cut():
    with pytest.raises(ForeignDataError, match=r"ends at 7.*\[7, 10\)"):
        check_watermarks(10, (0, 7), PLACE)


def test_partition_that_was_cut_is_taken_anew_into_another_lake():
    with pytest.raises(ForeignDataError, match="another lake"):
        check_watermarks(10, (0, 7), PLACE, has_lake=True)


def test_error_of_a_gap_names_the_range_and_the_way_on():
    assert "on_out_of_range=skip" in str(out_of_range((10, 15), PLACE))
    assert "addresses [10, 15)" in str(out_of_range((10, 15), PLACE))
