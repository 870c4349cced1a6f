"""A shard's heads runs compared with what is published: whether they cover it, and are sound."""

from collections.abc import Iterator
from pathlib import Path

from storage_core.errors import CorruptionError, UnsupportedFormatError
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_names import chain_of, runs_that_count, uncovered
from storage_core.lake.heads.runs import read_run, stored_runs
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.maintenance.unread import UnreadFileError, one_file_alone
from storage_core.lake.table import LakeFileGoneError, LakeTable

_WRITTEN_AGAIN = "`shardlog lake repair` writes it again"


def heads_problems(
    table: LakeTable, shard: int, addresses: AddressRange, scratch: Path | None
) -> Iterator[LakeProblem]:
    """Yield what is wrong with the runs of some addresses.

    Args:
        table: The table.
        shard: The shard.
        addresses: From the log's first address to the published one.
        scratch: An empty directory, if runs are to be read; None to go by their names.
    """
    # Somebody may have published more since the table was loaded, and merged runs of it.
    files, owner = stored_runs(table, shard), table.owner(shard)
    runs, notes = runs_that_count(files, owner, addresses.end)
    runs = [run for run in runs if run.begin < addresses.end]
    reach = max((run.end for run in runs), default=addresses.end)
    chain = chain_of(runs, addresses.start, reach)
    for missing in uncovered(chain, addresses.start, addresses.end):
        message = f"no heads run covers these addresses; {_WRITTEN_AGAIN}"
        yield LakeProblem(shard, missing.start, missing.end, "heads", message, None)
    if scratch is None:
        return
    for run in (*chain, *notes):
        try:
            with one_file_alone(table):
                read_run(table, run, scratch)
        except LakeFileGoneError:
            # It was merged meanwhile.
            continue
        except UnreadFileError as error:
            yield LakeProblem(shard, run.begin, run.end, "unread", str(error), run.path)
        except CorruptionError as error:
            # What a later shardlog wrote a repair leaves alone.
            is_later = isinstance(error, UnsupportedFormatError)
            message = error.message if is_later else f"{error.message}; {_WRITTEN_AGAIN}"
            yield LakeProblem(shard, run.begin, run.end, "heads", message, run.path)
