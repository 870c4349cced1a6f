"""Proves that parts can replace blocks: their files are as published, and rebuild the blocks.

It needs a view of the shard, a writer's or any reader's, and changes nothing.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.block import Block
from storage_core.format.joined_zone import groups, joined
from storage_core.format.row_columns import ENVELOPE, SCHEMA
from storage_core.format.zone import Zone
from storage_core.parts.progress import OnRows
from storage_core.parts.snapshot import index_of, listed_part
from storage_core.platform.arrow import concat
from storage_core.read.cold.blocks import ColdBlocks
from storage_core.read.columns import block_columns
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.work import Built, ProveWork
from storage_core.verify.part_checks import part_difference

_COMPARED: Final = (
    *("secondary", "primary", "address", "version", "state", "payload", "committed_at_ms"),
    *(*ENVELOPE, SCHEMA),
)
# So many rows of neighbours are proven at once.
_ROWS_TOGETHER: Final = 4096
_BYTES_TOGETHER: Final = 512 * 2**10
Blocks = Sequence[tuple[Zone, Block]]


def prove_blocks(view: ShardSnapshot, directory: Path, work: ProveWork, on_rows: OnRows) -> Built:
    """Compare the files of parts with their digests, and what they rebuild with the blocks.

    `on_rows` is called with how many rows were compared, some blocks at a time.

    Raises:
        CorruptionError: A block is damaged, or its parts are, or differ from it.
    """
    # IMPORTANT: another process asks only for what it saw; whoever sees less must not say yes.
    # Of parts that were joined since it would prove files that are about to go.
    is_seen = work.end <= view.state.sealed and view.state.part_list_sum == work.part_list_sum
    zones = list(view.zones(work.begin, work.end)) if is_seen else []
    if sum(zone.count for zone in zones) != work.rows:
        message = "not all blocks that are to be trimmed are seen as sealed, in the same parts"
        raise CorruptionError(
            message, stream=view.stream, shard=view.shard, start=work.begin, end=work.end
        )
    _prove_files(view, work.begin, work.end, directory)
    _prove(view, zones, ColdBlocks(view, directory), on_rows)
    return Built((), work.end)


def _prove_files(view: ShardSnapshot, begin: int, end: int, directory: Path) -> None:
    """Compare the files of parts that have rows of a range with what was published.

    Raises:
        CorruptionError: One is damaged or gone.
    """
    for part in index_of(view).overlapping(begin, end):
        listed = listed_part(view.shard, directory, part)
        if damage := part_difference(listed):
            message = f"{part.file_name} {damage}; blocks that it has rows of are not trimmed"
            raise CorruptionError(
                message,
                stream=view.stream,
                shard=view.shard,
                path=listed.path,
                start=part.first,
                end=part.last + 1,
            )


def _prove(view: ShardSnapshot, zones: list[Zone], parts: ColdBlocks, on_rows: OnRows) -> None:
    """Compare blocks with what is rebuilt of their parts.

    Raises:
        CorruptionError: A block cannot be read, or its parts differ from it.
    """
    blocks = view.blocks(iter(zones))
    for group in groups(zones, view.scheme, _ROWS_TOGETHER, _BYTES_TOGETHER):
        neighbours = list(islice(blocks, len(group)))
        if len(neighbours) == 1 or not _are_proven(view, neighbours, parts):
            _prove_each(view, neighbours, parts)
        for zone in group:
            on_rows(zone.count)


def _are_proven(view: ShardSnapshot, blocks: Blocks, parts: ColdBlocks) -> bool:
    """Tell whether several blocks together are what their parts have; if not, each is proven."""
    rows = concat([_rows(view, block) for _, block in blocks])
    try:
        return _rows(view, parts.block(joined([zone for zone, _ in blocks]))).equals(rows)
    except CorruptionError:
        return False


def _prove_each(view: ShardSnapshot, blocks: Blocks, parts: ColdBlocks) -> None:
    for zone, block in blocks:
        try:
            if _rows(view, parts.block(zone)).equals(_rows(view, block)):
                continue
        except CorruptionError as error:
            message = f"the parts of a block cannot replace it; it is not trimmed: {error.message}"
            raise _of_zone(view, zone, message, error.path) from error
        message = "the parts of a block do not have its rows; it is not trimmed"
        raise _of_zone(view, zone, message, None)


def _rows(view: ShardSnapshot, block: Block) -> pa.RecordBatch:
    return block_columns(block, view.shard, _COMPARED, None)


def _of_zone(view: ShardSnapshot, zone: Zone, message: str, path: Path | None) -> CorruptionError:
    return CorruptionError(
        message,
        stream=view.stream,
        shard=view.shard,
        path=path,
        start=zone.first,
        end=zone.end,
    )
