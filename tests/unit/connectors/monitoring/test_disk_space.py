"""What is told of a root's disk."""

import shutil

from connectors.monitoring.disk_space import disk_families


def test_disk_of_a_root_is_told_by_its_size_and_what_is_free(tmp_path):
    values = {family.name: family.samples[0].value for family in disk_families(tmp_path)}
    assert set(values) == {"shardlog_disk_size_bytes", "shardlog_disk_free_bytes"}
    assert values["shardlog_disk_size_bytes"] == shutil.disk_usage(tmp_path).total
    assert 0 < values["shardlog_disk_free_bytes"] <= values["shardlog_disk_size_bytes"]


def test_root_that_is_not_there_has_no_disk_to_tell_of(tmp_path):
    assert list(disk_families(tmp_path / "gone")) == []
