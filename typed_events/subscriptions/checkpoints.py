"""Checkpoints: where a subscriber stands, as text.

    order/0:41@3f2a9c0ffee01234,pay/0:7@…    the next address of each shard of each type

Behind `@` stands the proof of the row before that address (proofs.py); a place without one, as of
versions before, is taken as it is. What a checkpoint does not name is read from its start: it came
later. `START` is the checkpoint of who has seen nothing yet, where nothing was. A position alone,
`0:41`, is the event to begin with.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from storage_core.platform.overriding import override
from typed_events.errors import CommandError
from typed_events.language.checkpoint_text import CHECKPOINT

START: Final = "START"


class Place(NamedTuple):
    """Where a subscriber stands in a shard.

    Attributes:
        address: The next address.
        proof: What proves the row before it; None where nobody knows.
    """

    address: int
    proof: str | None = None

    @override
    def __str__(self) -> str:
        """Return it as a checkpoint has it."""
        return str(self.address) if self.proof is None else f"{self.address}@{self.proof}"


Places = Mapping[str, Mapping[int, Place]]


def checkpoint_of(places: Places) -> str:
    """Return places as text."""
    return ",".join(_entries(places)) or START


def around(places: Places, event_type: str, shard: int) -> tuple[str, str]:
    """Return what of a checkpoint stands before and behind the place in one shard."""
    shards = places[event_type]
    if len(places) == len(shards) == 1:
        # As most subscribers have it.
        return f"{event_type}/{shard}:", ""
    before = [
        *_entries({name: at for name, at in places.items() if name < event_type}),
        *_entries({event_type: {n: at for n, at in shards.items() if n < shard}}),
    ]
    behind = [
        *_entries({event_type: {n: at for n, at in shards.items() if n > shard}}),
        *_entries({name: at for name, at in places.items() if name > event_type}),
    ]
    left = "".join(f"{entry}," for entry in before)
    return f"{left}{event_type}/{shard}:", "".join(f",{entry}" for entry in behind)


def _entries(places: Places) -> list[str]:
    return [
        f"{name}/{shard}:{place}"
        for name, shards in sorted(places.items())
        for shard, place in sorted(shards.items())
    ]


def places_of(text: str, event_type: str | None) -> dict[str, dict[int, Place]]:
    """Return a checkpoint's places.

    Args:
        text: It, or a position alone.
        event_type: The type that is subscribed to; None for all.

    Raises:
        CommandError: It is of another type, or a position alone where all are subscribed to.
    """
    places: dict[str, dict[int, Place]] = {}
    if not CHECKPOINT.match(text):
        message = (
            f'"{text[:60]}" is no checkpoint: one is as order/0:41, with as many as are needed'
        )
        raise CommandError(message)
    for entry in text.replace(" ", "").split(","):
        name, slash, text_of_place = entry.rpartition("/")
        if not slash and event_type is None:
            message = f"{entry} may be of any type: name it as TYPE/{entry}"
            raise CommandError(message)
        name = name if slash else str(event_type)
        if event_type not in (None, name):
            message = f"{entry} is a place in {name}: the subscription is of {event_type} alone"
            raise CommandError(message)
        shard, _, rest = text_of_place.partition(":")
        address, _, proof = rest.partition("@")
        place = Place(int(address), proof or None)
        shards = places.setdefault(name, {})
        if shards.setdefault(int(shard), place) != place:
            message = f"the checkpoint has two places in shard {shard} of {name}"
            raise CommandError(message)
    return places
