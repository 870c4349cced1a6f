"""The doors by which Spark reads a stream: the path of its root, or a server over it.

Each scenario reads by path. Those of `BY_SERVER_TOO` read over a server as well, a server of this
process; all do where every case is wanted (make faults KIND=doors), but those of `BY_PATH`.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.log.served import DOORS, served
from tests.thin import every_case
from tests.unit.streaming_jobs.source.source_lab import SourceLab

# One of each kind: columns, a topic's rows, keys, types, several streams; a batch that comes
# again, a schema that comes meanwhile, expiry. What a source asks of a server is asked by them.
BY_SERVER_TOO: Final = frozenset(
    {
        "test_rows_of_a_stream_have_every_column",
        "test_rows_of_a_topic_look_as_kafkas_do",
        "test_failed_batch_comes_again_with_the_same_rows_in_the_same_tasks",
        "test_rows_land_under_their_keys",
        "test_frame_shows_rows_of_all_streams_by_topic_and_partition",
        "test_versions_that_come_while_a_query_runs_are_read_by_one_schema",
        "test_query_that_expiry_overtakes_ends_or_goes_on_with_what_is_left",
    }
)
# They name a path themselves, write, kill who reads files, or show what is of a path alone.
BY_PATH: Final = frozenset(
    {
        "test_copy_of_the_root_is_refused_in_every_action",
        "test_job_written_for_kafkas_source_runs_when_only_the_format_changes",
        "test_mistake_is_told_by_load_in_its_first_line",
        "test_view_made_in_sql_reads_the_stream",
        "test_batch_read_gives_each_row_once_though_its_workers_were_killed",
        "test_batch_write_lands_once_though_a_task_failed_after_a_part",
        "test_batch_write_lands_once_though_a_worker_was_killed_after_a_part",
        "test_micro_batch_has_each_row_once_though_its_workers_were_killed",
        "test_micro_batch_lands_once_though_a_task_failed_after_a_part",
        "test_micro_batch_lands_once_though_a_worker_was_killed_after_a_part",
    }
)
_NOT_OF_DOORS: Final = "test_servers"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a scenario read by one door or by both."""
    name = metafunc.function.__name__
    if metafunc.module.__name__.endswith(_NOT_OF_DOORS) or name in BY_PATH:
        return
    if name in BY_SERVER_TOO or every_case("SHARDLOG_FAULT_DOORS"):
        metafunc.parametrize("door", DOORS, indirect=True)


@pytest.fixture(autouse=True)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the streams of a lab be read by a door; by path without a parameter."""
    with ExitStack() as serving:
        addresses: dict[Path, str] = {}

        def address_of(root: Path) -> str:
            if root not in addresses:
                addresses[root] = serving.enter_context(served(root))
            return addresses[root].removeprefix("shardlog://")

        if getattr(request, "param", "path") == "server":
            monkeypatch.setattr(SourceLab, "reached_by", staticmethod(address_of))
        yield
