"""Waiting, bounded, until the owners of shards have done what an operator asks of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.kafka import Partition
from storage_core import ShardOwner, SystemClock, list_streams, shard_owners

WAIT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition.

    Attributes:
        partition: The partition.
        is_done: Whether it is as wanted; false where its owner did not do it in time.
        text: What was seen, for people.
        owner: The process that has its shard open at the end; None where nobody has.
    """

    partition: Partition
    is_done: bool
    text: str
    owner: ShardOwner | None = None


def owners_of(root: Path, stream: str) -> dict[int, ShardOwner | None]:
    """Return who holds each shard; of a stream that is not there, none."""
    return shard_owners(root, stream) if stream in list_streams(root) else {}


def await_owners(
    root: Path,
    stream: str,
    numbers: Iterable[int],
    is_wanted: Callable[[int, ShardOwner | None], bool],
    wait_s: float,
) -> dict[int, ShardOwner | None]:
    """Return who holds each shard once all are as wanted, or the time is over."""
    owners: dict[int, ShardOwner | None] = {}

    def are_all_wanted() -> bool:
        now = owners_of(root, stream)
        owners.update({number: now.get(number) for number in numbers})
        return all(is_wanted(number, owner) for number, owner in owners.items())

    await_until(are_all_wanted, wait_s)
    return owners


def await_until(is_over: Callable[[], bool], wait_s: float) -> None:
    """Ask until it is over, or the time is; at least once."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + wait_s
    while not is_over() and clock.monotonic_s() < deadline_s:
        clock.sleep(_LOOK_EVERY_S)
