"""The runs of a shard, as they lie beside a table: written, listed, read."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError, ForeignDataError, UnsupportedFormatError
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_file import read_run_file, write_run_file
from storage_core.lake.heads.run_heads import merged_heads, no_heads
from storage_core.lake.heads.run_names import (
    RUNS_DIRECTORY,
    RunName,
    chain_of,
    run_path,
    runs_directory,
    runs_that_count,
    uncovered,
)
from storage_core.lake.heads.run_notes import RunNotes, joined_notes
from storage_core.lake.table import LakeFileGoneError, LakeTable
from storage_core.platform.durable_file import file_errors

# How often runs are listed anew where one was merged into another meanwhile.
_TRIES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ShardHeadsRead:
    """What the runs of a shard say of some addresses.

    Attributes:
        heads: The heads of the rows, ascending by id, null first.
        notes: What the newest run says, with the dead letters of all; None if there is none.
        missing: Ranges of the addresses of which no run has the heads.
        damaged: The paths of runs that are not as they were written; nothing of them is used.
    """

    heads: pa.Table
    notes: RunNotes | None
    missing: tuple[AddressRange, ...]
    damaged: tuple[str, ...] = ()


def write_run(  # noqa: PLR0913 - what a run is
    table: LakeTable,
    shard: int,
    begin: int,
    end: int,
    log: int,
    heads: pa.Table,
    notes: RunNotes,
    scratch: Path,
) -> RunName:
    """Write the heads of the rows of some addresses, and upload them.

    Args:
        table: The table beside which it is to be.
        shard: The shard.
        begin: The first address.
        end: Their exclusive end.
        log: The number of the log that has them.
        heads: The heads, as `heads_of_rows` returns them.
        notes: What to say of the shard.
        scratch: An empty directory, in which a file is for a while.

    Raises:
        UnavailableError: The store refuses, or there is no disk or memory for it.
    """
    file = scratch / f"heads-{shard}-{begin}-{end}"
    try:
        digest = write_run_file(file, heads, notes)
        path = run_path(shard, begin, end, log, digest)
        table.put(path, file)
        with file_errors(file, "reading what is uploaded"):
            size = file.stat().st_size
        return RunName(begin, end, log, digest.hex(), path, size)
    finally:
        file.unlink(missing_ok=True)


def stored_runs(table: LakeTable, shard: int) -> dict[str, int]:
    """Return the paths and sizes of the files that lie where the runs of a shard do."""
    return table.listed(runs_directory(shard).removesuffix("/"))


def stored_runs_of(table: LakeTable, shards: Collection[int]) -> dict[int, dict[str, int]]:
    """Return for some shards what `stored_runs` does, by one listing of those of all shards."""
    directories = {runs_directory(shard): shard for shard in shards}
    stored: dict[int, dict[str, int]] = {shard: {} for shard in shards}
    for path, size in table.listed(RUNS_DIRECTORY, recursive=True).items():
        shard = directories.get(path[: path.rfind("/") + 1])
        if shard is not None:
            stored[shard][path] = size
    return stored


def read_run(table: LakeTable, run: RunName, scratch: Path) -> tuple[pa.Table, RunNotes]:
    """Return the heads and the notes of a run.

    Raises:
        LakeFileGoneError: It is gone.
        CorruptionError: It is not as it was written.
        UnsupportedFormatError: A later shardlog wrote it.
        UnavailableError: The store cannot be read now.
    """
    file = scratch / f"read-{run.digest}"
    try:
        table.get(run.path, file)
        return read_run_file(file, run.digest)
    finally:
        file.unlink(missing_ok=True)


def read_runs(table: LakeTable, shard: int, begin: int, end: int) -> ShardHeadsRead:
    """Return what the runs of a shard say of the rows of some addresses.

    Runs that follow each other are taken, or what covers as much as there is. Those beyond `end`
    are of commits that failed, and those of other logs than the table's owner may be of other rows,
    or note what another log has expired. A damaged one counts as missing.

    Args:
        table: The table.
        shard: The shard.
        begin: The first address.
        end: Their exclusive end: the published address.

    Raises:
        UnsupportedFormatError: A later shardlog wrote one.
        ForeignDataError: Some are of rows that belong to keys, and others not.
        UnavailableError: The store cannot be read now, or all is merged anew all the time.
    """
    damaged: set[str] = set()
    done: dict[RunName, tuple[pa.Table, RunNotes]] = {}
    addresses = AddressRange(begin, end)
    tries = 0
    with TemporaryDirectory(prefix="shardlog-heads-") as directory:
        while True:
            files, owner = stored_runs(table, shard), table.owner(shard)
            runs, alone = runs_that_count(files, owner, end)
            try:
                chain = _read_chain(table, runs, addresses, done, damaged, directory)
                alone = [run for run in alone if _is_sound(table, run, done, damaged, directory)]
            except LakeFileGoneError:
                tries += 1
                if tries == _TRIES_MAX:
                    raise
            else:
                # Where the owner says something, it is the newest.
                notes = sorted(alone, key=lambda run: run.log == owner)
                return _together(chain, notes, done, addresses, damaged)


def _read_chain(  # noqa: PLR0913 - what was read before is not read again
    table: LakeTable,
    runs: list[RunName],
    addresses: AddressRange,
    done: dict[RunName, tuple[pa.Table, RunNotes]],
    damaged: set[str],
    directory: str,
) -> list[RunName]:
    """Read runs that cover some addresses; choose others where one is damaged."""
    while True:
        sound = [run for run in runs if run.path not in damaged]
        chain = chain_of(sound, addresses.start, addresses.end)
        if all(_is_sound(table, run, done, damaged, directory) for run in chain):
            return chain


def _is_sound(
    table: LakeTable,
    run: RunName,
    done: dict[RunName, tuple[pa.Table, RunNotes]],
    damaged: set[str],
    directory: str,
) -> bool:
    """Read a run, unless it was read before; tell whether it is as it was written.

    Raises:
        UnsupportedFormatError: A later shardlog wrote it: what it says counts all the same.
    """
    if run in done:
        return True
    try:
        done[run] = read_run(table, run, Path(directory))
    except UnsupportedFormatError:
        raise
    except CorruptionError:
        damaged.add(run.path)
        return False
    return True


def _together(
    chain: list[RunName],
    notes_alone: list[RunName],
    done: dict[RunName, tuple[pa.Table, RunNotes]],
    addresses: AddressRange,
    damaged: Iterable[str],
) -> ShardHeadsRead:
    missing = uncovered(chain, addresses.start, addresses.end)
    damaged_paths = tuple(sorted(damaged))
    if not chain and not notes_alone:
        return ShardHeadsRead(no_heads(has_keys=False), None, missing, damaged_paths)
    notes = joined_notes([done[run][1] for run in [*chain, *notes_alone]])
    key_modes = {done[run][1].settings.key_mode for run in chain}
    if len(key_modes) > 1:
        message = "the table has rows of streams of several key_modes, and no log begins from it"
        raise ForeignDataError(message)
    empty = no_heads(has_keys=notes.settings.has_keys)
    heads = merged_heads([empty, *(done[run][0] for run in chain)])
    return ShardHeadsRead(heads, notes, missing, damaged_paths)
