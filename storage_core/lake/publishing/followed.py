"""What follows a shard by its files: the lake is made of them, whoever asks."""

from storage_core.errors import InvalidRequestError
from storage_core.read.follow.follower import ShardFollower
from storage_core.reader import StreamReader


def follower_of(reader: StreamReader, shard: int) -> ShardFollower:
    """Return what follows a shard by its files.

    Raises:
        InvalidRequestError: There is no such shard, or the reader asks a server.
    """
    follower = reader.shard(shard)
    if isinstance(follower, ShardFollower):
        return follower
    message = "the lake is made of a stream's files: open it by the path of its root"
    raise InvalidRequestError(message, stream=reader.rows.shards.meta.name)
