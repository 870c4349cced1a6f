"""Making the table of a stream, where nothing lies yet.

The stream's name and identity are written with the table at once (app_id.py), so that of two
streams that begin at one place one finds the other's table.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError

from storage_core.errors import ForeignDataError
from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.atomic_create import OWN_DIRECTORY, refuse_if_not_atomic
from storage_core.lake.delta.commits import NOTHING_BEHIND, once
from storage_core.lake.delta.state import HISTORY_DEFAULT, history_properties, log_path
from storage_core.lake.delta_errors import store_errors
from storage_core.lake.file_store import FileStore, store_options
from storage_core.lake.image_names import SHARD
from storage_core.lake.statistics import indexed_property
from storage_core.lake.target import LakeTarget

_LOG_DIRECTORY: Final = "_delta_log"
# How the files of a log end that count; others are about to become such.
_OF_A_LOG: Final = (".json", ".parquet", "_last_checkpoint")


def make_table(target: LakeTarget, stream: LakeStream, columns: pa.Schema) -> None:
    """Make the table of a stream, unless somebody else makes one meanwhile.

    Args:
        target: Where; a directory of this machine is there.
        stream: The stream.
        columns: Its columns; `shard` is added where they lack it.

    Raises:
        ForeignDataError: Files lie there.
        InvalidRequestError: The store lets two create one file at once; or Delta has no such type
            as a column's.
        UnavailableError: The store does not answer.
    """
    files = FileStore(target)
    _refuse_other_files(files, target)
    refuse_if_not_atomic(target)
    with store_errors(target.uri, "making the table"):
        schema = Schema.from_arrow(_with_shard(columns))
        with _lost_races_ignored():
            DeltaTable.create(
                target.uri,
                schema,
                mode="error",
                partition_by=[SHARD],
                name=stream.name,
                description=stream.description,
                configuration=history_properties(HISTORY_DEFAULT) | indexed_property(columns),
                storage_options=store_options(target),
                commit_properties=once(),
                post_commithook_properties=NOTHING_BEHIND,
            )
    files.sync(log_path(0))


@contextmanager
def _lost_races_ignored() -> Iterator[None]:
    """Pass over what delta-rs says where somebody else has made the table: it is opened then."""
    try:
        yield
    except CommitFailedError:
        return
    except DeltaError as error:
        if "already exists" not in str(error):
            raise


def _with_shard(columns: pa.Schema) -> pa.Schema:
    if SHARD in columns.names:
        return columns
    return columns.insert(0, pa.field(SHARD, pa.int32()))


def _refuse_other_files(files: FileStore, target: LakeTarget) -> None:
    """Refuse a place where something lies already.

    Raises:
        ForeignDataError: There are files.
    """
    others = [
        file.path
        for file in files.listed("")
        # Directories of this machine may be empty.
        if file.path != OWN_DIRECTORY
        and (not file.is_directory or files.has_files(file.path))
        and not _is_begun_log(files, file.path)
    ]
    if others:
        message = (
            f"there is no table at {target.uri}, but files ({', '.join(sorted(others)[:3])}); "
            "name an empty place, or delete what is left of a table that is gone for good"
        )
        raise ForeignDataError(message)


def _is_begun_log(files: FileStore, path: str) -> bool:
    """Tell whether a path is a log without a commit, as it is while somebody makes the table."""
    if path != _LOG_DIRECTORY:
        return False
    names = [file.path for file in files.listed(path, recursive=True) if not file.is_directory]
    return not any(name.endswith(_OF_A_LOG) for name in names)
