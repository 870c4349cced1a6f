"""The names of heads runs: files beside a Delta table, in a directory that Delta passes over.

    _shardlog/shard=3/heads-<begin>-<end>-<log>-<digest of the file>.parquet

`begin` and `end` are addresses of 20 digits, the range half-open. Where both are one, at the
published address, the run has notes alone: rows expired there, and none came. `log` is the number
of the log that wrote it, of 16 hexadecimal digits (app_id.py); the digest has 32.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import shard_directory

# Where they lie, beside the table's own files: a directory for each shard.
RUNS_DIRECTORY: Final = "_shardlog"
_NAME: Final = re.compile(r"heads-(\d{20})-(\d{20})-([0-9a-f]{16})-([0-9a-f]{32})\.parquet")
_PATH: Final = re.compile(rf"{RUNS_DIRECTORY}/shard=\d+/{_NAME.pattern}")


@dataclass(frozen=True, slots=True, order=True)
class RunName:
    """What the name of a run tells.

    Attributes:
        begin: The first address whose row it may have the head of.
        end: Their exclusive end.
        log: The number of the log that wrote it.
        digest: The digest of the file, in hex.
        path: Its place below the table.
        size: Its bytes, as the store lists them.
    """

    begin: int
    end: int
    log: int
    digest: str
    path: str
    size: int

    @property
    def addresses(self) -> AddressRange:
        """The addresses of whose rows it has the heads."""
        return AddressRange(self.begin, self.end)

    def covers(self, other: "RunName") -> bool:
        """Tell whether it has the heads of another one's rows, and is not that."""
        return self != other and self.begin <= other.begin and other.end <= self.end


def runs_directory(shard: int) -> str:
    """Return the directory of the runs of a shard, with a slash at its end."""
    return f"{RUNS_DIRECTORY}/{shard_directory(shard)}"


def is_run_path(path: str) -> bool:
    """Tell whether a path below a table is the place of a run."""
    return _PATH.fullmatch(path) is not None


def run_path(shard: int, begin: int, end: int, log: int, digest: bytes) -> str:
    """Return the place of a run below its table."""
    name = f"heads-{begin:020}-{end:020}-{log:016x}-{digest.hex()}.parquet"
    return f"{runs_directory(shard)}{name}"


def runs_among(files: dict[str, int]) -> list[RunName]:
    """Return the runs among files, in order; others are passed over."""
    return [run for run in _named_in(files) if run.begin < run.end]


def notes_among(files: dict[str, int]) -> list[RunName]:
    """Return the runs among files that have notes alone: no address is theirs."""
    return [run for run in _named_in(files) if run.begin == run.end]


def _named_in(files: dict[str, int]) -> list[RunName]:
    matches = ((_NAME.fullmatch(path.rpartition("/")[2]), path) for path in files)
    runs = (
        RunName(int(match[1]), int(match[2]), int(match[3], 16), match[4], path, files[path])
        for match, path in matches
        if match is not None
    )
    return sorted(runs)


def runs_of_owner(runs: Iterable[RunName], owner: int | None) -> list[RunName]:
    """Return the runs that tell of a table's rows, in order.

    From the first run of the table's owner on, those of other logs are of other rows: of a commit
    that failed, as one of an owner of before that was away for a while, or of rows in whose place
    the owner put its own.

    Args:
        runs: Runs.
        owner: The owner's number; None if the table names none.
    """
    some = sorted(runs)
    behind = min((run.begin for run in some if run.log == owner), default=None)
    if behind is None:
        return some
    return [run for run in some if run.log == owner or run.end <= behind]


def runs_that_count(
    files: dict[str, int], owner: int | None, end: int
) -> tuple[list[RunName], list[RunName]]:
    """Return the runs among files that tell of a table's rows, and those that have notes alone.

    Of the latter those of the published address: what was noted before is in each run that was
    written since.

    Args:
        files: The files that lie where the runs of a shard do.
        owner: The owner's number; None if the table names none.
        end: The published address.
    """
    valid = runs_of_owner(_named_in(files), owner)
    runs = [run for run in valid if run.begin < run.end]
    return runs, [run for run in valid if run.begin == run.end == end]


def chain_of(runs: Iterable[RunName], begin: int, end: int) -> list[RunName]:
    """Return runs that have the heads of as much of a range as there is, as few as possible.

    Those that follow each other without an overlap are taken, if they reach from one end to the
    other. Runs that reach beyond the range are of commits that failed, and not taken.
    """
    within = sorted(run for run in runs if run.end <= end and run.end > begin)
    return _tiled(within, begin, end) or _covering(within, begin)


def uncovered(runs: Iterable[RunName], begin: int, end: int) -> tuple[AddressRange, ...]:
    """Return the addresses of a range of which no run has the heads."""
    reached, missing = begin, []
    for run in sorted(runs):
        if run.begin > reached:
            missing.append(AddressRange(reached, min(run.begin, end)))
        reached = max(reached, run.end)
        if reached >= end:
            break
    if reached < end:
        missing.append(AddressRange(reached, end))
    return tuple(missing)


def _tiled(runs: list[RunName], begin: int, end: int) -> list[RunName]:
    """Return the fewest runs of which each begins where another ends; none if they miss an end."""
    # By where a chain ends: how many runs it has, and the last of them.
    chains: dict[int, tuple[int, RunName | None]] = {begin: (0, None)}
    for run in runs:
        # Sorted by their beginnings, so each chain that reaches one is there by then.
        before = chains.get(max(run.begin, begin))
        if before is not None and (run.end not in chains or before[0] + 1 < chains[run.end][0]):
            chains[run.end] = before[0] + 1, run
    chain: list[RunName] = []
    reached = end
    while reached > begin and reached in chains:
        last = chains[reached][1]
        assert last is not None, "the chain that begins is the only one without"
        chain.append(last)
        reached = max(last.begin, begin)
    return chain[::-1]


def _covering(runs: list[RunName], begin: int) -> list[RunName]:
    """Return runs that cover what all cover, each the one that reaches farthest."""
    chain: list[RunName] = []
    reached, index = begin, 0
    while index < len(runs):
        reached = max(reached, runs[index].begin)
        farthest = runs[index]
        while index < len(runs) and runs[index].begin <= reached:
            farthest = max(farthest, runs[index], key=lambda run: run.end)
            index += 1
        if farthest.end > reached:
            chain.append(farthest)
            reached = farthest.end
    return chain
