"""What is done between groups by the writer's thread, which has the streams."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from storage_core import ShardlogError
from typed_events.store.owned_streams import OwnedStreams
from typed_events.store.submission import Ending

T = TypeVar("T")


@dataclass(slots=True)
class WriterCall(Generic[T]):
    """What is to be done by the writer's thread, behind all that was submitted before.

    Attributes:
        function: Is given the streams.
        makes_root: Whether it makes the root, if there is none.
        result: What it returned.
        error: What it raised.
        done: Set once it was called.
    """

    function: Callable[[OwnedStreams], T]
    makes_root: bool = False
    result: T | None = None
    error: BaseException | None = None
    done: Ending = field(default_factory=Ending)
    events: int = 0
    size: int = 0

    def answer(self, streams: OwnedStreams) -> None:
        """Call the function, and keep what becomes of it."""
        try:
            self.result = self.function(streams)
        except ShardlogError as error:
            self.error = error

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self.error = error
        self.done.set()
