"""The process that builds parts for a writer: what it is ordered, it builds as any reader reads."""

from contextlib import closing
from functools import partial

from storage_core.catalog.stream_file import read_stream
from storage_core.parts.progress import OnRows
from storage_core.parts.snapshot import parts_directory
from storage_core.platform.clock import SystemClock
from storage_core.platform.work.serving import serve_orders
from storage_core.read.follow.follower import ShardFollower
from storage_core.tiering.block_proof import prove_blocks
from storage_core.tiering.build import build, build_errors, refuse_damaged, source_rows
from storage_core.tiering.work import Built, Order, ProveWork


def main() -> None:
    """Build what is ordered until the owner ends."""
    serve_orders(built)


def built(order: Order, on_rows: OnRows) -> Built:
    """Build what was ordered, of what any reader of the shard sees.

    `on_rows` is called again and again on the way, after some thousands of rows.

    Raises:
        ShardlogError: It cannot be built; of every kind, since the owner gets it.
    """
    work = order.work
    with build_errors(order.root / order.stream):
        files = read_stream(order.root, order.stream)
        follower = ShardFollower(files, order.shard, SystemClock())
    directory = parts_directory(files.shard_directory(order.shard))
    with build_errors(directory), closing(follower):
        if isinstance(work, ProveWork):
            prove = partial(prove_blocks, directory=directory, work=work, on_rows=on_rows)
            return follower.ask(prove)
        refuse_damaged(order.stream, order.shard, directory, work)
        read = partial(source_rows, directory=directory, work=work, on_rows=on_rows)
        rows = follower.ask(read)
        # What it reads by may hold files that the owner wants to be rid of.
        follower.close()
        return build(rows, directory, work, on_rows)


if __name__ == "__main__":
    main()
