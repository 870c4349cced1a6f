"""Changing a stream's own files: one process at a time, under the lock of its directory."""

from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from storage_core.catalog.lake_uri import refuse_lake_within
from storage_core.catalog.options import StreamOptions
from storage_core.catalog.stream_file import StreamFiles
from storage_core.catalog.stream_meta import (
    OPTIONS_FILE,
    StreamSettings,
    encode_settings,
)
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.platform.clock import SystemClock
from storage_core.platform.durable_file import replace_durably, taking_errors
from storage_core.platform.file_lock import DirectoryLock

_LOCK_WAIT_MAX_S: Final = 60.0
_FIXED: Final = {"shards", "unit", "jitter", "window", "key_mode"}


def locked(directory: Path) -> DirectoryLock:
    """Lock what guards a stream's own files; those inside hold it only for a few syncs.

    It is waited by the machine's clock: nobody lets go sooner because a test turns another one.

    Raises:
        UnavailableError: Another process, perhaps a frozen one, held it for too long.
    """
    lock = DirectoryLock.within(directory, SystemClock(), _LOCK_WAIT_MAX_S)
    if lock is None:
        message = f"waited {_LOCK_WAIT_MAX_S:g} s for another process to release the stream"
        raise UnavailableError(message, path=directory)
    return lock


def altered(files: StreamFiles, changes: dict[str, object]) -> StreamFiles:
    """Change options on disk and return what then holds."""
    names = {one.name for one in fields(StreamOptions)} - _FIXED
    unknown = sorted(set(changes) - names)
    if unknown:
        message = f"cannot alter {', '.join(unknown)}; what may change: {sorted(names)}"
        raise InvalidRequestError(message, stream=files.meta.name)
    with taking_errors(files.directory, "changing options"), locked(files.directory):
        files = files.reread()
        options = replace(files.settings.options, **changes)  # type: ignore[arg-type]  # __post_init__ checks the values
        options.check_retention(files.meta.scheme)
        if "lake" in changes:
            refuse_lake_within(files.directory.parent, options.lake)
        return rewritten(files, replace(files.settings, options=options))


def name_features(files: StreamFiles, named: Collection[str]) -> None:
    """Make programs that do not know some features refuse a stream from now on, durably."""
    with (
        taking_errors(files.directory, f"naming {', '.join(sorted(named))}"),
        locked(files.directory),
    ):
        files = files.reread()
        features = files.settings.features.union(named)
        if features != files.settings.features:
            rewritten(files, replace(files.settings, features=features))


def rewritten(files: StreamFiles, settings: StreamSettings) -> StreamFiles:
    """Put settings in the place of those on disk; durable on return. Under `locked`."""
    replace_durably(files.directory / OPTIONS_FILE, encode_settings(settings, files.meta))
    return replace(files, settings=settings)
