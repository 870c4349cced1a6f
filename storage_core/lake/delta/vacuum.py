"""Which files below a table can be deleted: those that no version names which can still be read.

    named now, or by a version not older than the history      stay
    named only by older versions                               can be deleted
    never named, and younger than the grace                    stay: they may be about to be
    never named, and older                                     can be deleted: an upload that ended

Only files that are called as ours are, in directories of shards, can be deleted at all. Of heads
runs, beside the table, those whose upload ended in the middle: of the others publishing takes care.
"""

import re
from datetime import timedelta
from math import ceil
from typing import Final

from deltalake import DeltaTable

from storage_core.lake.delta.state import file_sizes, history_of
from storage_core.lake.file_store import FileStore, StoredFile
from storage_core.lake.heads.run_names import RUNS_DIRECTORY, is_run_path
from storage_core.lake.image_names import is_image_path, is_shard_directory
from storage_core.platform.clock import Clock

# What is behind the name of a file that is being uploaded to a directory of this machine.
_UPLOADING: Final = re.compile(r"#\d+\Z")
_NS_A_MS: Final = 1_000_000


def deletable_files(
    delta: DeltaTable, store: FileStore, grace: timedelta, clock: Clock
) -> list[StoredFile]:
    """Return the files that can be deleted.

    Args:
        delta: The table's newest version.
        store: Its files.
        grace: How old a file is that was uploaded and is taken for forgotten.
        clock: The clock.
    """
    directories = _directories(store, "")
    stored = [
        file
        for directory in directories
        if is_shard_directory(directory)
        for file in store.listed(directory)
        if is_image_path(_UPLOADING.sub("", file.path))
    ]
    stored += [
        file
        for place in directories
        if place == RUNS_DIRECTORY
        for directory in _directories(store, place)
        for file in store.listed(directory)
        if is_run_path(_UPLOADING.sub("", file.path)) and _UPLOADING.search(file.path)
    ]
    before_ms = clock.now_ns() // _NS_A_MS - grace // timedelta(milliseconds=1)
    named = file_sizes(delta)
    removed = _removed(delta, 0)
    expired = _expired(delta)
    return [
        file
        for file in stored
        if file.path not in named
        and (file.path in expired or (file.path not in removed and file.written_ms < before_ms))
    ]


def _directories(store: FileStore, place: str) -> list[str]:
    return [file.path for file in store.listed(place) if file.is_directory]


def files_within_history(delta: DeltaTable) -> set[str]:
    """Return the files that only older versions name, of which one can still be read."""
    return _removed(delta, 0) - _expired(delta) - file_sizes(delta).keys()


def _expired(delta: DeltaTable) -> set[str]:
    """Return the files that no version names which can still be read."""
    history = history_of(delta.metadata().configuration)
    return _removed(delta, ceil(history / timedelta(hours=1)))


def _removed(delta: DeltaTable, hours: int) -> set[str]:
    """Return the files that were removed at least some hours ago, as far as the log still says."""
    return set(delta.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False))
