"""Which log publishes a shard: the one that the table names as its owner, and no other.

Two logs of one partition have its rows in parts of their own. If both published in turns, each
would take the other's files out of the table, of which its root may have no other copy. So whoever
is not the owner is refused; but a log that began from what the owner had published goes on, and
the table names it with its first commit. That it does once: should the predecessor take over again,
the log is refused as any other is.
"""

from dataclasses import dataclass
from typing import Literal

from storage_core.errors import ForeignDataError
from storage_core.lake.app_id import owner_number
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.table import LakeTable
from storage_core.reader import StreamReader

# Who an owner is, as seen from a log.
Owner = Literal["this log", "its predecessor", "another log"]


class LakeOwnerError(ForeignDataError):
    """Another log publishes the shard."""


@dataclass(frozen=True, slots=True)
class PublishingLog:
    """The log of a shard, as a table names it.

    Attributes:
        shard: The shard.
        number: The number of the log.
        predecessor: That of the log from whose table it began; None if it began from none, or
            became the owner since.
    """

    shard: int
    number: int
    predecessor: int | None

    def seen(self, owner: int | None) -> Owner | None:
        """Return who an owner is, as seen from this log."""
        if owner is None:
            return None
        if owner == self.number:
            return "this log"
        return "its predecessor" if owner == self.predecessor else "another log"

    def may_publish(self, owner: int | None) -> bool:
        """Tell whether the log publishes a shard of which a table names this owner."""
        return owner in (None, self.number, self.predecessor)

    def refuse_other(self, owner: int | None, stream: str, uri: str) -> None:
        """Refuse to publish a shard that another log publishes.

        Args:
            owner: The owner that the table names.
            stream: The stream's name.
            uri: Where the table is.

        Raises:
            LakeOwnerError: It is another.
        """
        if not self.may_publish(owner):
            message = (
                f"another log publishes this shard into the table at {uri}, mostly that of another "
                "root: publish from there, or give this root another lake; if that log is gone for "
                "good, `shardlog lake publish --take-over` lets this one go on"
            )
            raise LakeOwnerError(message, stream=stream, shard=self.shard)


def log_of(reader: StreamReader, shard: int, table: LakeTable | None) -> PublishingLog:
    """Return the log of a shard, as a table may name it.

    Args:
        reader: The stream, opened by the path of its root.
        shard: The shard's number.
        table: The table as it was loaded; None where there is none.
    """
    number = owner_number(reader.lineage(shard))
    owner = None if table is None else table.owner(shard)
    if owner == number:
        return PublishingLog(shard, number, None)
    predecessor = follower_of(reader, shard).ask(lambda view: view.state.lake_predecessor)
    # The log of the table is read for that, so it is asked only where the answer counts.
    is_named = table is not None and owner is not None and owner == predecessor
    if table is not None and is_named and table.has_owned(shard, number):
        predecessor = None
    return PublishingLog(shard, number, predecessor)
