"""Tests that share a session or a broker run on one process: each group's files are there."""

import gc

from tests.groups import FILES_OF, OF_FILES, OWN_SPARK, SPARK, SPARK_JOBS, SPARK_OUT, group_of
from tests.tidy.tree import ROOT, python_files


def test_files_of_groups_are_there() -> None:
    for path in (*OF_FILES, *OWN_SPARK):
        assert (ROOT / path).is_file(), path
    for folder in (*FILES_OF, *SPARK_OUT, SPARK_JOBS):
        assert (ROOT / folder).is_dir(), folder


def test_tests_that_share_are_of_one_group_and_others_of_none() -> None:
    first, second = f"{SPARK}/source/test_reads.py", f"{SPARK_JOBS}/test_roll_up.py"
    assert group_of(f"{first}::test_one[a::b]") == "spark-1"
    for folder in SPARK_OUT:
        assert group_of(f"{folder}/test_a.py::test_one") == "spark-3"
    assert group_of(f"{second}::test_one") == "spark-2"
    assert group_of("tests/broker/worker/test_broker_faults.py::test_one") == "own broker"
    for folder in FILES_OF:
        assert group_of(f"{folder}/test_a.py::test_one") == f"{folder}/test_a.py"
    alone = f"{second}::test_command_rolls_up", f"{OWN_SPARK[0]}::test_one", "tests/log/test_a.py"
    assert tuple(map(group_of, alone)) == alone


def test_no_test_has_the_mark_that_does_nothing() -> None:
    mark = "xdist" + "_group"
    assert [path for path, text in python_files("tests").items() if mark in text] == []


def test_what_was_collected_is_no_work_of_the_garbage_collector() -> None:
    assert gc.get_freeze_count() > len(gc.get_objects()) / 2
