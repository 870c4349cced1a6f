"""What a writer's process does beside its appends: rows become parts, parts are joined, blocks go.

Each step is one that chance picks, again and again until the appends are over. The process that
makes the parts for it is killed now and then: what it was making is dropped, and nothing is lost.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from random import Random
from typing import Final

from storage_core import PartMaker, Stream, UnavailableError

# One turn in so many the maker is killed in.
_DEATHS: Final = 8


def keep_up(
    stream: Stream, chance: Random, is_over: Callable[[], bool], told: Callable[[], object]
) -> None:
    """Do one step after the other until it is over, and tell of each; half of all have a maker."""
    maker = PartMaker() if chance.random() < 0.5 else None
    steps: list[Callable[[], object]] = [
        stream.seal,
        stream.compact,
        stream.trim,
        lambda: stream.seal(mend=True),
    ]
    try:
        stream.seal()
        told()
        while not is_over():
            if chance.random() < 0.5:
                _turn(stream, maker, chance)
            else:
                chance.choice(steps)()
            told()
    finally:
        if maker is not None:
            maker.close()


def _turn(stream: Stream, maker: PartMaker | None, chance: Random) -> None:
    """Do what is due, with a maker that may die of it."""
    if maker is None or maker.is_resting:
        stream.maintain()
        return
    with _dying(maker, chance) if chance.randrange(_DEATHS) == 0 else nullcontext():
        stream.maintain(maker)


@contextmanager
def _dying(maker: PartMaker, chance: Random) -> Iterator[None]:
    """Kill a maker at a random moment; that it died is no error."""
    timer = threading.Timer(chance.uniform(0, 0.05), _kill, [maker])
    timer.start()
    deaths = maker.deaths
    try:
        yield
    except UnavailableError:
        if maker.deaths == deaths:
            raise
    finally:
        timer.join()


def _kill(maker: PartMaker) -> None:
    process_id = maker.process_id
    if process_id is not None:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
