"""Deletes what a stream's table has no more: files of old versions, and uploads that ended."""

from datetime import timedelta
from os import PathLike

from storage_core.errors import InvalidRequestError
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.maintenance.report import LakeVacuum
from storage_core.lake.publish import target_of
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.target import LakeTarget
from storage_core.parts.part_home import is_here
from storage_core.reader import StreamReader

# An upload is committed within minutes, or was forgotten.
GRACE_DEFAULT = timedelta(days=1)


def vacuum_stream(
    root: str | PathLike[str],
    name: str,
    target: LakeTarget | None = None,
    *,
    grace: timedelta = GRACE_DEFAULT,
    dry_run: bool = False,
) -> LakeVacuum:
    """Delete files that no version of a stream's table names which is within its `lake_history`.

    Those stay that are parts of the stream which have no file on this machine.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where its table is; if None where the stream's option `lake` says.
        grace: How old an upload is at least that no version ever named.
        dry_run: Delete nothing.

    Raises:
        InvalidRequestError: There is no such stream, it has no lake, or that has no table.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer, or refuses; some files may be deleted.
    """
    with StreamReader.open(root, name) as reader:
        place = target or target_of(reader)
        table = open_table(reader, place)
        if table is None:
            message = f"there is no table at {place.uri} yet"
            raise InvalidRequestError(message, stream=name)
        if not dry_run:
            table.expire_history(reader.options.lake_history)
        # IMPORTANT: what other programs did to the table, as an older version that was restored,
        # takes no row that nothing else has.
        spared = {
            whole_image_name(part.shard, part.entry) for part in reader.parts() if not is_here(part)
        }
        files = table.vacuum(grace, dry_run=dry_run, spared=spared)
        return LakeVacuum(tuple(files), len(table.within_history()))
