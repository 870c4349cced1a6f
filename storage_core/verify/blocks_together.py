"""Reads blocks for verify: small neighbours together, so that a block costs what its rows do.

Where one of several is damaged or differs from its zone, each is read by itself, so that the
problem names it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from storage_core.errors import CorruptionError
from storage_core.format.block import Block
from storage_core.format.joined_zone import spanning
from storage_core.format.zone import Zone
from storage_core.read.block_proof import disagreement
from storage_core.read.snapshot import ShardSnapshot

# So many, that whoever waits is told often how far it is.
_BLOCKS_MAX: Final = 64
_BYTES_MAX: Final = 2**20


class Together(NamedTuple):
    """A zone of a view, or one for several neighbours.

    Attributes:
        zone: The zone.
        blocks: How many blocks it stands for.
        block: That of several, of which each was compared with its zone; None for one zone.
    """

    zone: Zone
    blocks: int
    block: Block | None


def blocks_together(
    view: ShardSnapshot, zones: Iterable[Zone], marks: Sequence[int]
) -> Iterator[Together]:
    """Yield zones, small neighbours as one with their block.

    Args:
        view: The view.
        zones: Some of its zones, by address.
        marks: Addresses that none of several neighbours reaches over.
    """
    for group in _groups(view, zones, marks):
        block = _block_of(view, group) if len(group) > 1 else None
        if block is None:
            yield from (Together(zone, 1, None) for zone in group)
        else:
            yield Together(spanning(group), len(group), block)


def _groups(
    view: ShardSnapshot, zones: Iterable[Zone], marks: Sequence[int]
) -> Iterator[list[Zone]]:
    group: list[Zone] = []
    size = 0
    try:
        for zone in zones:
            is_small = (
                zone.is_small and zone.first >= view.state.trimmed and not _is_lost(view, zone)
            )
            is_next = bool(group) and is_small and zone.previous_end == group[-1].end
            is_full = len(group) >= _BLOCKS_MAX or size >= _BYTES_MAX
            is_over = bool(group) and any(group[0].first < mark <= zone.first for mark in marks)
            if group and (is_full or is_over or not is_next):
                yield group
                group, size = [], 0
            if not is_small:
                yield [zone]
                continue
            group.append(zone)
            size += zone.block_bytes
    except CorruptionError:
        # What lies before a broken chain is read.
        if group:
            yield group
        raise
    if group:
        yield group


def _is_lost(view: ShardSnapshot, zone: Zone) -> bool:
    return any(lost.overlaps(zone.first, zone.end) for lost in view.state.lost)


def _block_of(view: ShardSnapshot, group: Sequence[Zone]) -> Block | None:
    """Return the block of several zones, if each says of its rows what it has."""
    block = view.block_of_several(group)
    return block if block is not None and disagreement(group, block) is None else None
