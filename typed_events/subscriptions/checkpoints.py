"""Checkpoints: where a subscriber stands, as text.

    order/0:41,pay/0:7,pay/1:9      the next address of each shard of each type

What a checkpoint does not name is read from its start: it came later. `START` is the checkpoint of
who has seen nothing yet, where nothing was. A position alone, `0:41`, is the event to begin with.
"""

import re
from collections.abc import Mapping
from typing import Final

from typed_events.errors import CommandError

START: Final = "START"
_PLACE: Final = r"(?:[a-zA-Z0-9._-]{1,249}/)?[0-9]{1,9}:[0-9]{1,18}"
_CHECKPOINT: Final = re.compile(rf"{_PLACE}(?:, *{_PLACE})*+\Z")
Positions = Mapping[str, Mapping[int, int]]


def checkpoint_of(positions: Positions) -> str:
    """Return positions as text."""
    return ",".join(_entries(positions)) or START


def around(positions: Positions, event_type: str, shard: int) -> tuple[str, str]:
    """Return what of a checkpoint stands before and behind the address of one shard."""
    before = [
        *_entries({name: at for name, at in positions.items() if name < event_type}),
        *_entries({event_type: {n: at for n, at in positions[event_type].items() if n < shard}}),
    ]
    behind = [
        *_entries({event_type: {n: at for n, at in positions[event_type].items() if n > shard}}),
        *_entries({name: at for name, at in positions.items() if name > event_type}),
    ]
    left = "".join(f"{entry}," for entry in before)
    return f"{left}{event_type}/{shard}:", "".join(f",{entry}" for entry in behind)


def _entries(positions: Positions) -> list[str]:
    return [
        f"{name}/{shard}:{address}"
        for name, shards in sorted(positions.items())
        for shard, address in sorted(shards.items())
    ]


def positions_of(text: str, event_type: str | None) -> dict[str, dict[int, int]]:
    """Return a checkpoint's positions.

    Args:
        text: It, or a position alone.
        event_type: The type that is subscribed to; None for all.

    Raises:
        CommandError: It is of another type, or a position alone where all are subscribed to.
    """
    positions: dict[str, dict[int, int]] = {}
    if not _CHECKPOINT.match(text):
        message = (
            f'"{text[:60]}" is no checkpoint: one is as order/0:41, with as many as are needed'
        )
        raise CommandError(message)
    for entry in text.replace(" ", "").split(","):
        name, slash, place = entry.rpartition("/")
        if not slash and event_type is None:
            message = f"{entry} may be of any type: name it as TYPE/{entry}"
            raise CommandError(message)
        name = name if slash else str(event_type)
        if event_type not in (None, name):
            message = f"{entry} is a place in {name}: the subscription is of {event_type} alone"
            raise CommandError(message)
        shard, _, address = place.partition(":")
        shards = positions.setdefault(name, {})
        if shards.setdefault(int(shard), int(address)) != int(address):
            message = f"the checkpoint has two places in shard {shard} of {name}"
            raise CommandError(message)
    return positions
