"""Giving transactions up by name: their staged rows go, and what has landed of them stays.

    staging/<directory>.given-up     beside the transaction's directory, until it lands

A shard may have all its rows while another lost them. Then the id, though a shard knows it, is
no replay when it comes again: it is staged anew, and each shard that has its rows passes over
them. The note says so. It is durable before the manifest goes, and goes with the next one.
"""

import re
from typing import Final

from storage_core.platform.durable_file import encode_document, make_directories, replace_durably
from storage_core.transactions.decision import Shards
from storage_core.transactions.manifest import Staging, clear_staged, given_up_note

_DIRECTORY_NAME: Final = re.compile(r"[0-9a-f]{32}\Z")


def give_up(staging: Staging, transaction: str, shards: Shards, shards_total: int) -> None:
    """Forget what is staged of a transaction.

    Args:
        staging: Where the stream's transactions are staged.
        transaction: Its id, or its directory's name where the manifest is too damaged to tell.
        shards: The shards that are open; recovery has removed what they had begun of it.
        shards_total: How many shards the stream has.
    """
    directory = staging.of(transaction)
    nameless = staging.directory / transaction
    is_nameless = bool(_DIRECTORY_NAME.match(transaction)) and nameless.is_dir()
    if is_nameless:
        directory = nameless
    is_unsure = is_nameless or len(shards) < shards_total
    is_told = is_unsure or _has_landed_by_half(transaction, shards)
    with staging.locked():
        if is_told:
            # Who removed the rows may have removed the directory of all staging.
            make_directories(staging.directory)
            replace_durably(given_up_note(directory), encode_document({"transaction": transaction}))
        clear_staged(directory)


def _has_landed_by_half(transaction: str, shards: Shards) -> bool:
    recorded = [shard.transactions.progress(transaction) for shard in shards.values()]
    done = [progress for progress in recorded if progress is not None and progress.is_done]
    landed = sum(progress.rows_total for progress in done)
    return bool(done) and landed < done[0].rows_of_all_shards
