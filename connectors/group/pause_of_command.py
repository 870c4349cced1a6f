"""Pausing partitions for one command, which changes their shards and lets them go on."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from connectors.group.owner_waits import await_owners
from connectors.group.pauses import Pause, Pauses
from connectors.group.retry_shards import shards_of
from storage_core import SystemClock, UnavailableError, describe_stream

WAIT_S: Final = 60.0


@contextmanager
def paused_for_command(
    root: Path, stream: str, numbers: Sequence[int], command: str, *, wait_s: float = WAIT_S
) -> Iterator[list[int]]:
    """Pause partitions while the body runs; yields those that were not paused before.

    1. Write a pause of each that is not paused, which ends with this process.
    2. Wait until nobody has their shards open.
    3. The body runs.
    4. End the pauses of 1, whatever came between; those that others have made stay.

    Where it is killed after 1, the pauses are free, and the next worker or command that sees them
    ends them.

    Args:
        root: The root's path.
        stream: The stream's name.
        numbers: The partitions.
        command: What is said of why they are paused.
        wait_s: How long to wait for those who have the shards.

    Raises:
        InvalidRequestError: This process may not write under the root.
        UnavailableError: The disk does not take a pause, or a shard stays open.
    """
    pauses, now_ms = Pauses(root), SystemClock().now_ns() // 10**6
    reason = f"for {command}, process {os.getpid()} on {socket.gethostname()}"
    with ExitStack() as at_end:
        held = []
        for number in numbers:
            pause = pauses.hold(Pause(stream, number, now_ms, reason))
            if pause is not None:
                at_end.callback(pause.end)
                held.append(number)
        _await_free(root, stream, numbers, wait_s)
        yield held


def _await_free(root: Path, stream: str, numbers: Sequence[int], wait_s: float) -> None:
    listed = describe_stream(root, stream).shards
    shards = [shard for number in numbers for shard in shards_of(number, listed)]
    owners = await_owners(root, stream, shards, lambda _, owner: owner is None, wait_s)
    for shard, owner in owners.items():
        if owner is not None:
            message = f"paused, but {owner} still has the shard open after {wait_s:g} s"
            raise UnavailableError(message, stream=stream, shard=shard)
