"""Which parts a shard has at one moment, as its catalogue says, and where their files lie."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import (
    CATALOGUE_SUMS,
    PartEntry,
    ShardParts,
    decode_part,
    entry_sum,
)
from storage_core.format.shard_state import KEY_CATALOGUE, decode_int
from storage_core.read.view import ShardView

_DIRECTORY: Final = "parts"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of Parquet with some of a shard's sealed rows.

    Attributes:
        shard: The shard's number.
        path: The file.
        entry: What the catalogue says of it.
    """

    shard: int
    path: Path
    entry: PartEntry


def parts_in(view: ShardView) -> ShardParts:
    """Return the parts of a view by their first address.

    Raises:
        CorruptionError: An entry is damaged or missing.
    """
    found = []
    total = 0
    for key, data in view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            found.append(decode_part(key, data))
        except CorruptionError as error:
            raise error.placed(view.stream, view.shard) from error
        total += entry_sum(key, data)
    state = view.state
    # By the view itself: the state may be of a moment before it.
    told = view.value_at(KEY_CATALOGUE)
    if told is not None and decode_int(told) != total % CATALOGUE_SUMS:
        message = "the catalogue of parts is not whole"
        raise CorruptionError(message, stream=view.stream, shard=view.shard)
    return ShardParts(state.sealed, tuple(found), state.floor, state.cut)


def parts_directory(shard_directory: Path) -> Path:
    """Return where a shard's parts lie."""
    return shard_directory / _DIRECTORY
