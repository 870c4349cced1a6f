"""A shard whose log cannot be read, as a problem of its stream's table."""

from collections.abc import Iterator

from storage_core.errors import UnavailableError
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.readable_shards import ReadableShards
from storage_core.lake.table import LakeTable


def log_problem(
    opened: ReadableShards, table: LakeTable | None, shard: int, command_root: str
) -> Iterator[LakeProblem]:
    """Yield why a shard's log cannot be read, and what to type; nothing where it was read.

    Args:
        opened: The shards, which were asked before.
        table: The table, if there is one.
        shard: The shard.
        command_root: The root, as it is to be typed.
    """
    error = opened.faults.get(shard)
    if error is None:
        return
    if isinstance(error, UnavailableError):
        yield LakeProblem(shard, None, None, "unread", f"{error}; try again", None)
        return
    way_out = opened.way_out(shard, table, command_root)
    hint = "" if way_out is None else f"; `{way_out}` gives the shard a new log from the table"
    yield LakeProblem(shard, None, None, "log", f"{error}{hint}", None)
