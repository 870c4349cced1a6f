"""Changes of the part list: entries, and the sum that proves the list whole."""

from collections.abc import Sequence
from dataclasses import replace

from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import (
    PART_LIST_SUMS,
    PartEntry,
    encode_part,
    entry_sum,
    part_key,
)
from storage_core.format.shard_state import KEY_PART_LIST, KEY_PARTS, ShardState, encode_int


def replace_parts(
    batch: Batch, state: ShardState, gone: Sequence[PartEntry], made: Sequence[PartEntry]
) -> ShardState:
    """Put into a batch that some parts take the place of others.

    Args:
        batch: What is written.
        state: Of the shard.
        gone: Parts that have entries.
        made: Parts that have none.

    Returns:
        The state that then holds.
    """
    total = state.part_list_sum
    for part in gone:
        key = part_key(part.first, part.number)
        batch.delete(key)
        total -= entry_sum(key, encode_part(part))
    for part in made:
        key, entry = part_key(part.first, part.number), encode_part(part)
        batch.put(key, entry)
        total += entry_sum(key, entry)
    count = max([state.parts, *(part.number + 1 for part in made)])
    batch.put(KEY_PARTS, encode_int(count))
    total %= PART_LIST_SUMS
    batch.put(KEY_PART_LIST, encode_int(total))
    return replace(state, parts=count, part_list_sum=total)
