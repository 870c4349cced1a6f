"""Whose a table is, and under which names its shards' `txn` actions are.

Each shard has two: how far it is published, and the owner, which is the one log that publishes it;
and one more for each log that became its owner.

A stream that copies a topic is the same in every root that copies it, so that a partition may move
from machine to machine: its identity is the topic's id. Any other stream is that of its root alone.
A topic that was made anew under its name, and a stream that was, have other identities, so none of
them goes on in the table of the one before.
"""

from dataclasses import dataclass
from typing import Final

from storage_core.catalog import root_file
from storage_core.catalog.stream_file import StreamFiles
from storage_core.catalog.stream_meta import StreamMeta
from storage_core.errors import InvalidRequestError
from storage_core.reader import StreamReader

_OURS: Final = "shardlog"
# Delta's description of a table has room for a sentence. It is written with the table at once.
_DESCRIBED: Final = "shardlog stream "
# A `txn` action has a signed number of 64 bits; some readers take a negative one for none.
_OWNER_MASK: Final = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class LakeStream:
    """A stream as its table names it.

    Attributes:
        name: The stream's name.
        identity: What tells it from others of its name.
    """

    name: str
    identity: str

    def app_id(self, shard: int) -> str:
        """Return the application id of a shard's `txn` actions."""
        return f"{_OURS}/{self.name}/{self.identity}/{shard}"

    def owner_app_id(self, shard: int) -> str:
        """Return the application id of the `txn` actions that name a shard's owner."""
        return f"{self.app_id(shard)}/owner"

    def owned_app_id(self, shard: int, number: int) -> str:
        """Return the application id of the `txn` action that says that a log became the owner."""
        return f"{self.owner_app_id(shard)}/{number}"

    @property
    def description(self) -> str:
        """What the table says of itself."""
        return f"{_DESCRIBED}{self.name} {self.identity}"


def lake_stream(meta: StreamMeta, root_id: str) -> LakeStream:
    """Return what a stream is called in its table.

    Args:
        meta: The stream.
        root_id: The id of the root that it lies in.
    """
    if meta.origin is not None:
        return LakeStream(meta.name, meta.origin.topic_id)
    return LakeStream(meta.name, f"{root_id}-{meta.incarnation}")


def stream_of_files(files: StreamFiles) -> LakeStream:
    """Return what a stream is called in its table, by its files.

    Raises:
        InvalidRequestError: They are those of an archived log.
    """
    if files.is_archived:
        message = "an archived log is not published; the log in its place is"
        raise InvalidRequestError(message, stream=files.meta.name)
    return lake_stream(files.meta, root_file.root_id(files.directory.parent))


def stream_of(reader: StreamReader) -> LakeStream:
    """Return what the stream of a reader is called in its table.

    Raises:
        InvalidRequestError: The reader has an archived log.
    """
    return stream_of_files(reader.rows.shards.files)


def owner_number(lineage: str) -> int:
    """Return the number by which a table names a log.

    Args:
        lineage: The log's lineage, in hex.
    """
    return int(lineage, 16) & _OWNER_MASK


def described_stream(description: str | None) -> LakeStream | None:
    """Return the stream that a table's description names; None if it is no table of ours."""
    if not description or not description.startswith(_DESCRIBED):
        return None
    name, _, identity = description.removeprefix(_DESCRIBED).partition(" ")
    return LakeStream(name, identity) if name and identity else None
