"""The view of a store that is not there yet.

A shard is listed before its first writer makes its store, and until then it is a shard like
any other: empty. Readers in other processes look through this instead.
"""

from collections.abc import Iterator

from storage_core.store.rocks import Item


class EmptyStoreView:
    """A moment at which a store holds nothing."""

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

    def close(self) -> None:
        """Do nothing."""
