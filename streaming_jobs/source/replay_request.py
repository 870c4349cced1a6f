"""The one request that the source makes of a shard: a range as it was stored.

What has expired since, or lies below the floor, is shown; so the same range is always answered
alike, or with an error.
"""

from storage_core import ReadRequest


def replay_request(
    shard: int, begin: int | None, end: int, columns: tuple[str, ...]
) -> ReadRequest:
    """Return a request for the offsets [begin, end) of a shard; None for the log's start."""
    return ReadRequest(shard, start_address=begin, end_address=end, columns=columns, order="replay")
