"""The names of files in a Delta table: a directory for each shard, and in it the images of parts.

    as it lies    shard=3/<first>-<last>-<digest of the part>.parquet
    rewritten     shard=3/<first>-<last>-<digest of the part>-<digest of the file>.parquet

`first` and `last` are the addresses of its rows, of 20 digits each; digests are of 32. So a name
tells which part it stands for, and what it holds: to upload it again does no harm.
"""

import re
from dataclasses import dataclass
from typing import Final

from storage_core.errors import InvalidRequestError
from storage_core.format.part_entry import PartEntry

# The column by which a table is partitioned.
SHARD: Final = "shard"
_DIRECTORY: Final = re.compile(rf"{SHARD}=(0|[1-9]\d*)", re.ASCII)
_NAME: Final = re.compile(
    rf"{_DIRECTORY.pattern}/(\d{{20}})-(\d{{20}})-([0-9a-f]{{32}})(?:-([0-9a-f]{{32}}))?\.parquet",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ImageName:
    """What the name of an image tells.

    Attributes:
        shard: The shard.
        first: The least address of its rows.
        last: The largest.
        entry_digest: The digest of the part that it stands for, in hex.
        rewritten_digest: The digest of the file, in hex; None if it is the part as it lies.
    """

    shard: int
    first: int
    last: int
    entry_digest: str
    rewritten_digest: str | None = None


def shard_directory(shard: int) -> str:
    """Return how the path of each file of a shard begins."""
    return f"{SHARD}={shard}/"


def is_shard_directory(path: str) -> bool:
    """Tell whether a path is the directory of a shard, without the slash at its end."""
    return _DIRECTORY.fullmatch(path) is not None


def shard_of_path(path: str) -> int | None:
    """Return the shard in whose directory a file lies, whoever wrote it; None if in none."""
    match = _DIRECTORY.fullmatch(path.partition("/")[0])
    return None if match is None else int(match[1])


def image_name(
    shard: int, entry: PartEntry, first: int, last: int, rewritten_digest: str | None = None
) -> str:
    """Return the place of an image in its table.

    Args:
        shard: The shard.
        entry: The part that it stands for.
        first: The least address of its rows.
        last: The largest.
        rewritten_digest: The digest of the file, in hex; None if it is the part as it lies.
    """
    name = f"{first:020}-{last:020}-{entry.digest.hex()}"
    suffix = "" if rewritten_digest is None else f"-{rewritten_digest}"
    return f"{shard_directory(shard)}{name}{suffix}.parquet"


def whole_image_name(shard: int, entry: PartEntry) -> str:
    """Return the place of a part as it lies, which is the image of all its rows."""
    return image_name(shard, entry, entry.first, entry.last)


def image_of_path(path: str) -> ImageName:
    """Return what the place of an image tells.

    Raises:
        InvalidRequestError: It is not the place of one.
    """
    match = _NAME.fullmatch(path)
    if match is None:
        raise foreign_file(path)
    shard, first, last, entry_digest, rewritten_digest = match.groups()
    return ImageName(int(shard), int(first), int(last), entry_digest, rewritten_digest)


def foreign_file(path: str) -> InvalidRequestError:
    """Return the error of a file that a version names and another program wrote."""
    message = (
        f"{path} in the table is no file of shardlog: another program has written there; "
        "restore the version before it (Delta's RESTORE), then publish again"
    )
    return InvalidRequestError(message)


def is_image_path(path: str) -> bool:
    """Tell whether a path is the place of an image."""
    return _NAME.fullmatch(path) is not None
