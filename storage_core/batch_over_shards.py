"""A batch whose rows go to several shards: taken by all of them, or by none.

1. Wait for every shard's append lock, in the order of their numbers, each for `wait_max` at most.
2. In each shard write the records added before, and draft its part of the batch.
3. Write the drafts, shard by shard.

What can refuse the batch does so in 1 and 2, and then no row of it is written anywhere. Only a
disk that fails in 3 leaves a part: the error says in which shards, and is not retriable.
"""

from collections.abc import Sequence
from contextlib import ExitStack

from storage_core.entry import AppendReport
from storage_core.errors import ShardlogError, ShardPoisonedError
from storage_core.record import Rows
from storage_core.shard import Shard


def append_over_shards(parts: Sequence[tuple[Shard, Rows]]) -> AppendReport:
    """Write each shard's part of a batch; shards ascend.

    Raises:
        UnavailableError: Another call held one of the shards for too long; nothing was written.
        ShardPoisonedError: A write failed in one of them; the message says which shards have
            their rows.
    """
    report = AppendReport()
    written: list[int] = []
    with ExitStack() as held:
        for shard, _ in parts:
            held.enter_context(shard.guard.appending())  # 1
        drafts = [(shard, shard.draft(rows)) for shard, rows in parts]  # 2
        try:
            for shard, draft in drafts:
                report = report.plus(shard.commit_path(draft, durable=False))  # 3
                written.append(shard.context.number)
        except BaseException as error:
            at, *rest = [shard.context.number for shard, _ in parts[len(written) :]]
            told = (
                f"rows of this batch are in shards {written}, may be in shard {at}, "
                f"are not in shards {rest}; appending it again would double them"
            )
            if not isinstance(error, ShardlogError):
                error.add_note(told)
                raise
            message = f"{error.message}; {told}"
            raise ShardPoisonedError(message, stream=error.stream, shard=at) from error
    for shard, _ in parts:
        shard.commit_if_due()
    return report
