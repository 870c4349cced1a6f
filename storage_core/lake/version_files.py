"""The files of a stream's table as one version names them, for who reads them without Delta."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import pyarrow as pa

from storage_core.lake.publish import target_of
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.target import LakeTarget
from storage_core.reader import StreamReader


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What one version of a table has.

    Attributes:
        place: The directory of the table, by its path on this machine or by its URI.
        version: The version.
        columns: Its columns; `shard` is that of a file's directory, `shard=3/`.
        paths: Its files of Parquet, below the place.
    """

    place: str
    version: int
    columns: pa.Schema
    paths: Sequence[str]


def table_files(
    root: str | PathLike[str], name: str, target: LakeTarget | None = None
) -> TableFiles | None:
    """Return the files of a stream's table as it is now; None where there is none.

    They stay for the stream's `lake_history`, whatever is published meanwhile.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where the table is; if None where the stream's option `lake` says.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer.
    """
    with StreamReader.open(root, name) as reader:
        place = target or target_of(reader)
        table = open_table(reader, place)
    if table is None:
        return None
    paths = sorted(table.files())
    return TableFiles(str(place.directory or place.uri), table.version, table.columns, paths)
