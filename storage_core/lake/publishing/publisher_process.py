"""The process that publishes for a writer: it reads the stream as any process may."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from storage_core.lake.publishing.publisher import PublishAnswer, PublishOrder
from storage_core.platform.extras import missing
from storage_core.platform.work.serving import serve_orders
from storage_core.reader import StreamReader

if TYPE_CHECKING:
    from storage_core.lake.publishing.open_tables import OpenTables

# So many commits an order: others wait for theirs, and what hangs is noticed between two.
_COMMITS_MAX: Final = 4


def main() -> None:
    """Publish what is ordered until the owner ends."""
    serve_orders(published)


def published(order: PublishOrder, on_rows: Callable[[int], None]) -> PublishAnswer:
    """Publish a bounded step of what is sealed of a shard.

    Raises:
        ShardlogError: As `publish_shard` does; of every kind, since the owner gets it.
    """
    # It may be missing, which is told as any other reason is.
    try:
        from storage_core.lake.publish import publish_shard  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing(str(error.name), "publishing") from error
    with StreamReader.open(order.root, order.stream) as reader:
        # IMPORTANT: read before the part list that is published, which may be newer than that.
        state = reader.shard(order.shard).state()
        published = publish_shard(
            reader,
            order.shard,
            order.target,
            on_rows=on_rows,
            commits_max=_COMMITS_MAX,
            tables=_open_tables(),
        )
    return PublishAnswer(published, (state.sealed, state.part_list_sum))


@cache
def _open_tables() -> "OpenTables":
    from storage_core.lake.publishing.open_tables import OpenTables  # noqa: PLC0415

    return OpenTables()


if __name__ == "__main__":
    main()
