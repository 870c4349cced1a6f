"""The process that begins shards from their lake for a worker."""

from collections.abc import Callable

from storage_core.lake.beginning.starter import StartOrder
from storage_core.platform.extras import missing
from storage_core.platform.work.serving import serve_orders


def main() -> None:
    """Do what is ordered until the owner ends."""
    serve_orders(started)


def started(order: StartOrder, on_rows: Callable[[int], None]) -> object:
    """Look shards up, or begin them.

    Raises:
        ShardlogError: As `lake_positions` and `begin_from_lake` do.
    """
    # It may be missing, which is told as any other reason is.
    try:
        from storage_core.lake import begin_from_lake, lake_positions  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing(str(error.name), "a stream with a lake") from error
    if not order.is_to_begin:
        return lake_positions(order.root, order.stream, order.shards, order.target)
    return begin_from_lake(
        order.root,
        order.stream,
        order.shards,
        order.target,
        expire=order.expire,
        on_progress=lambda _done, _total: on_rows(0),
    )


if __name__ == "__main__":
    main()
