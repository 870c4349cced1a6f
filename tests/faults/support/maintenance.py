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

from storage_core import PartBuilder, Stream, UnavailableError

# One turn in so many the builder is killed in.
_DEATHS: Final = 8


def keep_up(
    stream: Stream, chance: Random, is_over: Callable[[], bool], report: Callable[[], object]
) -> None:
    """Do one step after the other until it is over, and tell of each; half have a builder."""
    mortal = _Mortal() if chance.random() < 0.5 else None
    steps: list[Callable[[], object]] = [
        stream.seal,
        stream.compact,
        stream.trim,
        lambda: stream.seal(rebuild=True),
    ]
    try:
        stream.seal()
        report()
        while not is_over():
            if chance.random() < 0.5:
                _turn(stream, mortal, chance)
            else:
                chance.choice(steps)()
            report()
    finally:
        if mortal is not None:
            mortal.builder.close()


class _Mortal:
    """A builder, and how often it was killed."""

    def __init__(self) -> None:
        self.builder = PartBuilder()
        self.kills = 0

    @contextmanager
    def dying(self, chance: Random) -> Iterator[None]:
        """Kill it at a random moment, of the work or behind it."""
        timer = threading.Timer(chance.uniform(0, 0.05), self._kill)
        timer.start()
        try:
            yield
        finally:
            timer.join()

    def _kill(self) -> None:
        process_id = self.builder.process_id
        if process_id is not None:
            # Counted before: its death may be noticed at once.
            self.kills += 1
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


def _turn(stream: Stream, mortal: _Mortal | None, chance: Random) -> None:
    """Do what is due, with a builder that may die of it: that it was killed is no error."""
    if mortal is None or mortal.builder.is_paused:
        stream.maintain()
        return
    builder, deaths = mortal.builder, mortal.builder.deaths
    try:
        with mortal.dying(chance) if chance.randrange(_DEATHS) == 0 else nullcontext():
            stream.maintain(builder)
    except UnavailableError:
        # Killed behind its work it is missed by the next, which may be of a later turn.
        if not deaths < builder.deaths <= mortal.kills:
            raise
