"""What a loaded Delta table says that delta-rs' public names do not tell, or only at more cost."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

HISTORY_DEFAULT: Final = timedelta(days=7)
_LOG_KEPT: Final = "delta.logRetentionDuration"
_FILES_KEPT: Final = "delta.deletedFileRetentionDuration"
_INTERVAL: Final = re.compile(r"interval (\d+) seconds?\Z")


def file_sizes(delta: DeltaTable) -> dict[str, int]:
    """Return the path of each file of the loaded version, and how many bytes it has."""
    return delta._table.get_add_file_sizes()  # noqa: SLF001 - the public name gives URIs, without sizes


def row_counts(delta: DeltaTable, directory: str) -> dict[str, int]:
    """Return how many rows files in a directory have, of those whose statistics say so."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    paths, counts = (actions.column(name).to_pylist() for name in ("path", "num_records"))
    rows = zip(map(str, paths), counts, strict=True)
    return {path: count for path, count in rows if count is not None and path.startswith(directory)}


def latest_version(delta: DeltaTable) -> int:
    """Return the newest version that the store has; it is not loaded."""
    return delta._table.get_latest_version()  # noqa: SLF001 - there is no public name


def history_properties(keep: timedelta) -> dict[str, str]:
    """Return the properties of a table that let old versions be read for a time."""
    interval = f"interval {keep // timedelta(seconds=1)} seconds"
    return {_LOG_KEPT: interval, _FILES_KEPT: interval}


def history_of(configuration: Mapping[str, str]) -> timedelta:
    """Return how long files of older versions are kept, as a table's properties say."""
    interval = _INTERVAL.match(configuration.get(_FILES_KEPT) or "")
    return HISTORY_DEFAULT if interval is None else timedelta(seconds=int(interval[1]))


def log_path(version: int) -> str:
    """Return the path below a table of the file that a commit is."""
    return f"_delta_log/{version:020d}.json"


def checkpoint_paths(version: int) -> tuple[str, ...]:
    """Return the paths of the files that a checkpoint is: its own, and the one that names it."""
    return f"_delta_log/{version:020d}.checkpoint.parquet", "_delta_log/_last_checkpoint"
