"""How a stream's sparse index is kept, as an option of it (index/adaptive_writer.py)."""

from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import Any, Final

from storage_core.errors import InvalidRequestError

SPACING_MOST: Final = 2**20
QUEUE_MOST: Final = 2**20
_TICKS_MOST: Final = 10_000
_TICK_MOST: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """When rows get entries in the index, and how many entries may wait.

    Attributes:
        is_on: Whether entries are written. Those that are there serve reads either way.
        spacing_min: Of an id so many rows lie between two entries, at least.
        spacing_max: So many at most. The spacing doubles and halves between the two, and with
            it the batch, which is half of it.
        queue_max: More than twice so many entries do not wait: what is above is dropped.
        high_percent: With more than this share of `queue_max` waiting the spacing doubles.
        low_percent: With less than this share it halves.
        ticks_between: So many ticks lie between two changes of the spacing, at least.
        tick: A tick passes with each block, and each such time without one.
    """

    is_on: bool = True
    spacing_min: int = 16
    spacing_max: int = 4096
    queue_max: int = 2048
    high_percent: int = 50
    low_percent: int = 25
    ticks_between: int = 5
    tick: timedelta = timedelta(milliseconds=100)

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        _check_on(self.is_on)
        _check("spacing_min", self.spacing_min, 2, SPACING_MOST)
        _check("spacing_max", self.spacing_max, self.spacing_min, SPACING_MOST)
        _check("queue_max", self.queue_max, 1, QUEUE_MOST)
        _check("high_percent", self.high_percent, 1, 100)
        _check("low_percent", self.low_percent, 0, self.high_percent)
        _check("ticks_between", self.ticks_between, 0, _TICKS_MOST)
        _check_tick(self.tick)


def encode_index_options(options: IndexOptions) -> dict[str, Any]:
    """Return them as they stand in options.json."""
    return asdict(options) | {"tick": options.tick.total_seconds()}


def unknown_index_options(document: dict[str, Any]) -> list[str]:
    """Return the names there that are none of this version's."""
    return sorted(set(document) - {one.name for one in fields(IndexOptions)})


def decode_index_options(document: dict[str, Any]) -> IndexOptions:
    """Return what `encode_index_options` was given."""
    return IndexOptions(**document | {"tick": timedelta(seconds=document["tick"])})


def _check_on(value: object) -> None:
    if type(value) is not bool:
        message = f"index.is_on: {value!r} is not True or False"
        raise InvalidRequestError(message)


def _check_tick(value: object) -> None:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= _TICK_MOST:
        message = f"index.tick: {value!r} is not a positive timedelta up to {_TICK_MOST}"
        raise InvalidRequestError(message)


def _check(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        message = f"index.{name}: {value!r} is not an integer from {least} to {most}"
        raise InvalidRequestError(message)
