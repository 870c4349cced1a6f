"""Figures of the process: those that Prometheus' own client gives for the same process."""

import pytest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from connectors.monitoring.process_figures import process_families

# Between two looks the process goes on.
NEAR = {
    "process_cpu_seconds_total": 1.0,
    "process_virtual_memory_bytes": 64 * 2**20,
    "process_resident_memory_bytes": 64 * 2**20,
    "process_start_time_seconds": 0.011,
    "process_open_fds": 8,
    "process_max_fds": 0,
}


def figures():
    return {family.name: family.samples[0].value for family in process_families()}


def test_figures_are_those_of_another_client():
    theirs = {
        sample.name: sample.value
        for family in ProcessCollector(registry=CollectorRegistry()).collect()
        for sample in family.samples
    }
    ours = figures()
    assert ours.keys() == theirs.keys() == NEAR.keys()
    for name, near in NEAR.items():
        assert ours[name] == pytest.approx(theirs[name], abs=near, rel=0), name


def test_file_that_is_opened_is_counted(tmp_path):
    before = figures()["process_open_fds"]
    with (tmp_path / "any").open("w"):
        assert figures()["process_open_fds"] == before + 1


def test_name_of_a_process_may_have_brackets_and_spaces(tmp_path):
    numbers = " ".join(str(number) for number in range(3, 53))
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_text(f"7 (a) b (c) {numbers}")
    (tmp_path / "stat").write_text("cpu 1\nbtime 1000\n")
    named = {family.name: family.samples[0].value for family in process_families(tmp_path)}
    assert named["process_virtual_memory_bytes"] == 23
    assert named["process_start_time_seconds"] == pytest.approx(1000 + 22 / 100)


def test_system_without_proc_has_the_rest(tmp_path):
    assert [family.name for family in process_families(tmp_path)] == ["process_max_fds"]
