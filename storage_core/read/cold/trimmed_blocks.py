"""Who makes blocks again that were trimmed: loaded once a read comes to one."""

from pathlib import Path

from storage_core.platform.loading import loading
from storage_core.read.cold.parts import parts_directory
from storage_core.read.snapshot import BlocksFor, ShardSnapshot, TrimmedRows


def blocks_of_parts(shard_directory: Path) -> BlocksFor:
    """Return what makes blocks again of the parts of any snapshot of a shard."""
    directory = parts_directory(shard_directory)

    def made_again(snapshot: ShardSnapshot) -> TrimmedRows:
        # Only who reads what was trimmed needs it, and it takes 100 ms.
        with loading(snapshot.stream):
            from storage_core.read.cold.blocks import ColdBlocks  # noqa: PLC0415

        return ColdBlocks(snapshot, directory)

    return made_again
