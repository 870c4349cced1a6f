"""Files of a table that another program wrote, wherever they lie: told, and refused.

Whatever such a program did, its version may have taken rows from any shard, and given them to
another one or to none: so all shards wait until the version before is restored. What was published
behind it would go with it.
"""

from collections.abc import Iterator

from storage_core.lake.image_names import foreign_file, shard_of_path
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.table import LakeTable


def refuse_foreign_files(table: LakeTable) -> None:
    """Refuse a version that another program wrote.

    Raises:
        InvalidRequestError: It names a file that shardlog did not write.
    """
    paths = table.foreign_files()
    if paths:
        raise foreign_file(paths[0])


def foreign_problems(table: LakeTable) -> Iterator[LakeProblem]:
    """Yield each file of a table that another program wrote, once."""
    for path in table.foreign_files():
        shard, message = shard_of_path(path), foreign_file(path).message
        yield LakeProblem(shard, None, None, "foreign", message, path)
