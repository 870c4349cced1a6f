"""What a subscriber is told: rows, where it stands, and that there is nothing more by now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from typed_events.subscriptions.checkpoints import Place
from typed_events.subscriptions.proofs import Proofs


@dataclass(frozen=True, slots=True)
class Rows:
    """Events of one shard of a type, in their order; each has its position in column `id`.

    Attributes:
        event_type: The type.
        batch: The core fields, and those of the type; or, of all types, the latter as JSON in
            column `payload`.
        addresses: The address of each row.
        around: What of a checkpoint stands before and behind the place in its shard.
        proofs: What proves the place behind each row.
        made: What was made of the rows, by what it is: who makes something of them keeps it here,
            for all subscribers that are told the same rows. Nothing in it refers to frames: they
            would be garbage that counts do not free.
    """

    event_type: str
    batch: pa.RecordBatch
    addresses: Sequence[int]
    around: tuple[str, str]
    proofs: Proofs
    made: dict[str, object]

    def checkpoints(self) -> Iterator[str]:
        """Yield of each row the checkpoint of who has seen the rows up to it."""
        before, behind = self.around
        for address, proof in zip(self.addresses, self.proofs.behind(self.addresses), strict=True):
            yield f"{before}{Place(address + 1, proof)}{behind}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the subscriber stands: resumed from it, it gets what comes behind, each once."""

    text: str


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that was stored before was told; from here on events come as they are stored."""

    checkpoint: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing was told for a while, and the subscription is alive."""

    checkpoint: str


Frame = Rows | Checkpoint | CaughtUp | Heartbeat
