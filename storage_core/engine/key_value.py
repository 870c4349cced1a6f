"""What a shard needs of its key-value store, whoever provides it.

Two families of keys; a batch is written whole or not at all, and durable once synced. A view
is a moment: what is read of it together belongs together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from storage_core.format.keys import FAMILY_DEFAULT

Recovery = Literal["strict", "point_in_time"]
Item = tuple[bytes, bytes]
Put = tuple[str, bytes, bytes]
KeyRange = tuple[str, bytes, bytes]


@dataclass(slots=True)
class Batch:
    """Puts and deletes that become durable together or not at all."""

    puts: list[Put] = field(default_factory=list)
    puts_of_many: list[tuple[Sequence[bytes], Sequence[bytes]]] = field(default_factory=list)
    deletes: list[tuple[str, bytes]] = field(default_factory=list)
    range_deletes: list[KeyRange] = field(default_factory=list)

    def put(self, key: bytes, value: bytes, family: str = FAMILY_DEFAULT) -> None:
        """Set a key."""
        self.puts.append((family, key, value))

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Set many keys of the default family, at less for each; `put` sets none of them too."""
        self.puts_of_many.append((keys, values))

    def delete(self, key: bytes, family: str = FAMILY_DEFAULT) -> None:
        """Remove a key; deletes come before puts."""
        self.deletes.append((family, key))

    def delete_range(self, start: bytes, end: bytes, family: str = FAMILY_DEFAULT) -> None:
        """Remove the keys from `start` to before `end`, at one key's cost; before puts too.

        A secondary may go on showing them beside keys that are put there, until it is reopened.
        """
        self.range_deletes.append((family, start, end))


class StoreSnapshot(Protocol):
    """A moment of a store; one thread at a time."""

    def items(self, family: str, start: bytes, end: bytes | None) -> Iterator[Item]:
        """Yield the items from `start` to before `end` in order; raise if one is unreadable."""
        ...

    def at_or_before(self, family: str, key: bytes) -> Item | None:
        """Return the item with the largest key that is not above `key`."""
        ...

    def at_or_after(self, family: str, key: bytes) -> Item | None:
        """Return the item with the least key that is not below `key`."""
        ...

    def bytes_under(self, family: str, start: bytes, end: bytes) -> int:
        """Return the bytes of the values from `start` to before `end`, of no segment's."""
        ...

    def segment_location(self, key: bytes) -> str | None:
        """Say where in a segment the block under a key lies; None if it is in none."""
        ...

    def close(self) -> None:
        """Let go of the moment."""
        ...


class EmptyStoreSnapshot:
    """A moment at which a store holds nothing.

    A shard is listed before its first writer makes its store, and until then it is a shard like
    any other: empty. Readers in other processes look through this instead.
    """

    def items(self, family: str, start: bytes, end: bytes | None) -> Iterator[Item]:
        """Yield nothing."""
        del family, start, end
        return iter(())

    def at_or_before(self, family: str, key: bytes) -> None:
        """Return nothing."""
        del family, key

    def at_or_after(self, family: str, key: bytes) -> None:
        """Return nothing."""
        del family, key

    def bytes_under(self, family: str, start: bytes, end: bytes) -> int:
        """Return 0."""
        del family, start, end
        return 0

    def segment_location(self, key: bytes) -> None:
        """Return nothing."""
        del key

    def close(self) -> None:
        """Do nothing."""


class KeyValueStore(Protocol):
    """What a shard needs of its store."""

    def write(self, batch: Batch) -> None:
        """Write a batch, not yet durable."""
        ...

    def sync(self) -> None:
        """Make everything written durable."""
        ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return values of the default family. For a writer's own store only."""
        ...

    def snapshot(self) -> StoreSnapshot:
        """Return a view of this moment."""
        ...

    def flush(self) -> None:
        """Move what is in memory to files."""
        ...

    def free(
        self,
        blocks: Sequence[tuple[bytes, bytes]],
        segments: Sequence[int],
        files: Sequence[Path] = (),
    ) -> None:
        """Give back, sooner or later, what nothing that is durable refers to any more.

        What could not be given back before is tried again.

        Args:
            blocks: Ranges of keys of the log family.
            segments: Numbers of segments.
            files: Files of parts.
        """
        ...

    def close(self) -> None:
        """Close the store and every view of it."""
        ...
