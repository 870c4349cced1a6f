"""Whether a store creates a file only where there is none, also for two who do it at once.

All that a table promises hangs on it: of two who commit the same version, one must be refused. Not
every store that speaks S3's protocol does so; some take both, and the first commit is gone without
an error. So a table of its own below `_shardlog/` of the place gets the same version from two
threads at once, again and again; once it was seen that one of them was refused each time, it is
deleted. Readers of Delta pass over names that begin with an underscore.
"""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError

from storage_core.errors import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.lake.delta.commits import NOTHING_BEHIND
from storage_core.lake.delta_errors import store_errors
from storage_core.lake.file_store import FileStore, store_options
from storage_core.lake.image_names import SHARD
from storage_core.lake.target import LakeTarget

# What begins like this below a table is shardlog's, and none of its files.
OWN_DIRECTORY: Final = "_shardlog"
ROUNDS: Final = 20
_WRITERS: Final = 2
_WAIT_S: Final = 120.0
_APP_ID: Final = "shardlog/probe"
# Stores that this process has seen refuse one of two, each time.
_atomic: Final[set[tuple[str, ...]]] = set()
_NOT_ATOMIC: Final = (
    "the store lets two writers create one file at once, so commits would be lost; a lake needs a "
    "store with conditional writes (S3's If-None-Match), as AWS S3, R2, MinIO, GCS and Azure have"
)


def refuse_if_not_atomic(target: LakeTarget) -> None:
    """Commit to a table of its own from two threads at once, and count who was refused.

    Raises:
        InvalidRequestError: The store takes both.
        ShardlogError: The store cannot be used (delta_errors.py).
    """
    probe = replace(target, uri=f"{target.uri}/{OWN_DIRECTORY}/probe-{secrets.token_hex(8)}")
    files = FileStore(probe)
    files.make_directory()
    store = _store_of(probe)
    if store in _atomic:
        files.remove_directory()
        return
    try:
        with store_errors(target.uri, "trying the store"):
            is_atomic = _commits_once(probe)
    finally:
        with suppress(ShardlogError):
            _delete(files)
    if not is_atomic:
        message = f"{target.uri}: {_NOT_ATOMIC}"
        raise InvalidRequestError(message)
    _atomic.add(store)


def _store_of(target: LakeTarget) -> tuple[str, ...]:
    """Return what tells a store from others: its address and options, or the file system."""
    directory = target.directory
    if directory is not None:
        return (str(directory.stat().st_dev),)
    scheme, _, rest = target.uri.partition("://")
    options = (f"{name}={value}" for name, value in sorted(target.options.items()))
    return (scheme, rest.partition("/")[0], *options)


def _commits_once(probe: LakeTarget) -> bool:
    """Tell whether of two commits of one version one is refused, each time."""
    options = store_options(probe)
    schema = Schema.from_arrow(pa.schema([pa.field(SHARD, pa.int32())]))
    DeltaTable.create(probe.uri, schema, mode="error", storage_options=options)
    tables = [DeltaTable(probe.uri, storage_options=options) for _ in range(_WRITERS)]
    barrier = Barrier(_WRITERS)
    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in range(2 * ROUNDS):
            before = tables[0].version()
            committing = [pool.submit(_commit, table, schema, barrier) for table in tables]
            taken = sum(future.result() for future in committing)
            for table in tables:
                table.update_incremental()
            # None is told that it was taken where the answer was lost.
            versions = {table.version() for table in tables}
            if taken > 1 or len(versions) > 1 or (taken and versions != {before + 1}):
                return False
            if tables[0].version() == ROUNDS:
                return True
    message = "the store refuses too many commits to tell whether it refuses the right ones"
    raise UnavailableError(message)


def _commit(table: DeltaTable, schema: Schema, barrier: Barrier) -> bool:
    """Commit once both threads are about to; tell whether it was taken."""
    barrier.wait(_WAIT_S)
    try:
        table.create_write_transaction(
            [],
            "append",
            schema,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(_APP_ID, table.version() + 1)], max_commit_retries=0
            ),
            post_commithook_properties=NOTHING_BEHIND,
        )
    except CommitFailedError:
        return False
    return True


def _delete(files: FileStore) -> None:
    for file in files.listed("", recursive=True):
        if not file.is_directory:
            files.delete(file.path)
    files.remove_directory()
