"""The process that publishes for a writer: it reads the stream as any process may."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from storage_core.errors import ShardlogError
from storage_core.lake.publishing.publisher import PublishAnswer, PublishOrder
from storage_core.platform.extras import missing
from storage_core.platform.work.serving import serve_orders

if TYPE_CHECKING:
    from storage_core.lake.publishing.open_tables import OpenTables

# So many commits an order: others wait for theirs, and what hangs is noticed between two.
_COMMITS_MAX: Final = 4


def main() -> None:
    """Publish what is ordered until the owner ends."""
    serve_orders(published)


def published(order: PublishOrder, on_rows: Callable[[int], None]) -> PublishAnswer:
    """Publish a bounded step of what is sealed of some shards.

    Raises:
        ShardlogError: The stream cannot be opened, or what publishes is not installed.
    """
    # It may be missing, which is told as any other reason is.
    try:
        from storage_core.lake.publish import publish_shards  # noqa: PLC0415
        from storage_core.lake.readable_shards import readable_shards  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing(str(error.name), "publishing") from error
    marks: dict[int, tuple[int, int]] = {}
    with readable_shards(order.root, order.stream, order.shards) as opened:
        errors = dict(opened.faults)
        for shard in order.shards:
            if shard in errors:
                continue
            # IMPORTANT: read before the part list that is published, which may be newer than that.
            try:
                state = opened.reader.shard(shard).state()
            except ShardlogError as error:
                errors[shard] = error.placed(order.stream, shard)
            else:
                marks[shard] = (state.sealed, state.part_list_sum)
        done = publish_shards(
            opened.reader,
            list(marks),
            order.target,
            commits_max=_COMMITS_MAX,
            on_rows=on_rows,
            tables=_open_tables(),
        )
    errors.update(
        (shard, error.placed(order.stream, shard)) for shard, error in done.errors.items()
    )
    return PublishAnswer(done.published, errors, done.fault, marks)


@cache
def _open_tables() -> "OpenTables":
    from storage_core.lake.publishing.open_tables import OpenTables  # noqa: PLC0415

    return OpenTables()


if __name__ == "__main__":
    main()
