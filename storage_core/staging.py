"""Where processes that do not write a stream's shards leave rows for it.

area = StagingArea.open(root, name)            any process; no shard is opened
writer = area.writer(id)                       rows of one attempt, in files
parts = writer.finish()                        durable; carried to whoever decides
shards = area.publish(id, parts)               the first one under an id is the transaction
area.open_shards(shards, wait_s)               any opener finishes it; so does
stream.finish_transactions()                   a stream that is open already
"""

from collections.abc import Iterable

from storage_core.stream import Stream
from storage_core.transactions.staging_area import StagingPlace


class StagingArea(StagingPlace):
    """A stream as those see it who stage rows for it. Holds nothing open; any thread."""

    def open_shards(self, shards: Iterable[int], wait_s: float, purpose: str = "") -> Stream:
        """Open shards for writing once their writer lets go; finishes what is published.

        The purpose is told to those who find them locked then.

        Raises:
            ShardLockedError: Another writer kept one of them for too long.
        """
        return self.open_in_turn(Stream.open, shards, wait_s, purpose)
