"""Where a shard open for writing stands, and how its marks of progress relate.

`WriterState` is one frozen value that the shard replaces whole, under its append lock, once a
batch is written. Whoever asks takes it by one read and needs no lock; what it says of rows
above committed is not to be shown. Committed itself is kept by the marker, and by nothing else;
what a sync takes before it begins, under the commit lock, are an end that it will publish
(the heads keep it, shard_heads.py) and a number of batches that are durable behind it:

    heads on disk <= committed <= taken <= publishable <= next        addresses, exclusive ends
    synced <= batches                                                 batches since the opening

Every mark only grows, so both lines hold for any thread that reads them from left to right.
"""

from dataclasses import dataclass, replace

from storage_core.format.shard_state import ShardState


@dataclass(frozen=True, slots=True)
class WriterState:
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

    def after(self, state: ShardState, *, is_held_back: bool) -> "WriterState":
        """Return where the shard stands once a batch is written, which may be held back."""
        publishable = self.publishable if is_held_back else state.tail.next
        return replace(self, state=state, publishable=publishable, batches=self.batches + 1)

    def all_publishable(self) -> "WriterState":
        """Return where the shard stands once a transaction holds nothing back any more."""
        return replace(self, publishable=self.state.tail.next)


def is_in_order(committed: int, taken: int, synced: int, writer: WriterState) -> bool:
    """Tell whether the marks are in order; they were read in the order of the arguments."""
    state = writer.state
    ends = state.heads_through <= committed <= taken <= writer.publishable <= state.tail.next
    return ends and synced <= writer.batches
