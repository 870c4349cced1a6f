"""What is told of a root's disk."""

import shutil

from connectors.monitoring.disk_space import disk_families


def test_disk_of_a_root_is_told_by_its_size_and_what_is_free(tmp_path):
    size, free = ((family.name, family.samples[0].value) for family in disk_families(tmp_path))
    usage = shutil.disk_usage(tmp_path)
    assert size == ("shardlog_disk_size_bytes", usage.total)
    assert free[0] == "shardlog_disk_free_bytes"
    assert 0 < free[1] <= usage.total


def test_root_that_is_not_there_has_no_disk_to_tell_of(tmp_path):
    assert list(disk_families(tmp_path / "gone")) == []
