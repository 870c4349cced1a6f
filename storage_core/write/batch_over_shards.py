"""A batch whose rows go to several shards: taken by all of them, or by none.

1. Wait for every shard's append lock, in the order of their numbers, each for `wait_max` at most.
2. In each shard write the records added before, and plan its part of the batch.
3. Write the plans, shard by shard.

What can refuse the batch does so in 1 and 2, and then no row of it is written anywhere. Only a
disk that fails in 3 leaves a part: the error says in which shards, and is not retriable. An
interruption in 3 is raised once all have their rows.
"""

from collections import deque
from collections.abc import Sequence
from functools import reduce

from storage_core.errors import ShardlogError, ShardPoisonedError
from storage_core.format.record import Rows
from storage_core.write.entry import AppendReport
from storage_core.write.guard import ShardLock, in_full
from storage_core.write.shard import Shard


def append_over_shards(parts: Sequence[tuple[Shard, Rows]]) -> AppendReport:
    """Write each shard's part of a batch; shards ascend.

    Raises:
        UnavailableError: Another call held one of the shards for too long; nothing was written.
        ShardPoisonedError: A write failed in one of them; the message says which shards have
            their rows.
    """
    taken: list[ShardLock] = []
    # IMPORTANT: one call of C, made ready before; an interruption cannot come between two locks.
    each_release = map(ShardLock.release, taken)
    try:
        for shard, _ in parts:
            shard.guard.append_lock.take()  # 1
            taken.append(shard.guard.append_lock)
            shard.guard.refuse_if_unusable()
        report = _write(parts)
    finally:
        deque(each_release, 0)
    for shard, _ in parts:
        shard.commit_if_due()
    return report


def _write(parts: Sequence[tuple[Shard, Rows]]) -> AppendReport:
    plans = [(shard, shard.plan(rows)) for shard, rows in parts]  # 2
    written: dict[int, AppendReport] = {}

    def write_rest() -> None:
        for shard, plan in plans:
            if shard.context.number not in written:
                written[shard.context.number] = shard.commit_path.run(plan, durable=False)  # 3

    try:
        # A plan written twice is there once.
        in_full(write_rest)
    except BaseException as error:
        if len(written) == len(parts):
            raise
        uncertain, *rest = [shard.context.number for shard, _ in parts[len(written) :]]
        outcome = (
            f"rows of this batch are in shards {sorted(written)}, may be in shard {uncertain}, "
            f"are not in shards {rest}; appending it again would double them"
        )
        if not isinstance(error, ShardlogError):
            error.add_note(outcome)
            raise
        message = f"{error.message}; {outcome}"
        raise ShardPoisonedError(message, stream=error.stream, shard=uncertain) from error
    return reduce(AppendReport.plus, written.values(), AppendReport())
