"""Where a shard open for writing stands, and how its marks of progress relate.

`Standing` is one frozen value that the shard replaces whole, under its append lock, once a
batch is written. Whoever asks takes it by one read and needs no lock; what it says of rows
above committed is not to be shown. Committed itself is kept by the marker, and by nothing else:

    heads on disk <= committed <= publishable <= next        addresses, exclusive ends

Every mark only grows, so the line holds for any thread that reads it from left to right.
"""

from dataclasses import dataclass, replace

from storage_core.format.shard_state import ShardState


@dataclass(frozen=True, slots=True)
class Standing:
    """A shard open for writing, at one moment.

    Attributes:
        state: What the last batch written says of the shard. Transactions are not in it.
        publishable: The end that the next commit publishes; below the tail's while a
            transaction holds its rows back.
        batches: How many batches were written since the shard was opened.
    """

    state: ShardState
    publishable: int
    batches: int = 0

    def after(self, state: ShardState, *, holds_publishing: bool) -> "Standing":
        """Return where the shard stands once a batch is written."""
        publishable = self.publishable if holds_publishing else state.tail.next
        return Standing(state, publishable, self.batches + 1)

    def with_state(self, state: ShardState) -> "Standing":
        """Return where the shard stands once something beside rows has changed."""
        return replace(self, state=state)

    def all_publishable(self) -> "Standing":
        """Return where the shard stands once a transaction holds nothing back any more."""
        return replace(self, publishable=self.state.tail.next)


def is_in_order(committed: int, standing: Standing) -> bool:
    """Tell whether the marks are in order; committed was read before the standing."""
    state = standing.state
    return state.heads_through <= committed <= standing.publishable <= state.tail.next
