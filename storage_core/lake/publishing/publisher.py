"""The process that publishes a writer's shards, as the writer sees it.

It is another than the one that builds parts: a store that is slow keeps no part from being built.
One that dies, or hangs for too long and is killed, has published what it has committed; the next
call goes on behind that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage_core.errors import ShardlogError
from storage_core.lake.target import LakeTarget
from storage_core.platform.clock import Clock
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.platform.work.process import WorkProcess

if TYPE_CHECKING:
    from storage_core.lake.publishing.report import ShardPublished

_MODULE: Final = "storage_core.lake.publishing.publisher_process"
# A step uploads some parts. A store that needs longer for them is taken for one that hangs.
_WORK_MAX_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class PublishOrder:
    """Shards of a stream that are to be published, for whoever opens it by name.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shards: Their numbers, those that go first before others.
        target: Where its table is.
    """

    root: Path
    stream: str
    shards: Sequence[int]
    target: LakeTarget


@dataclass(frozen=True, slots=True)
class PublishAnswer:
    """What came of an order.

    Attributes:
        published: What was published, of each shard as far as it got.
        errors: Why some did not get through.
        fault: What ended it for all that were left.
        part_marks: The marks of the shards' part lists from before that.
    """

    published: "Mapping[int, ShardPublished]"
    errors: Mapping[int, ShardlogError]
    fault: ShardlogError | None
    part_marks: Mapping[int, tuple[int, int]]


class LakePublisher(Closing):
    """Publishes shards in a process beside this one.

    Any thread may call it; one order at a time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start no process yet."""
        self._process = WorkProcess(_MODULE, "publisher", _WORK_MAX_S, clock)

    @property
    def deaths(self) -> int:
        """How often the process died."""
        return self._process.deaths

    @property
    def process_id(self) -> int | None:
        """The process; None where there is none."""
        return self._process.process_id

    @property
    def is_paused(self) -> bool:
        """Tell whether it died so lately that nothing is published for now."""
        return self._process.is_paused

    def publish(self, order: PublishOrder) -> PublishAnswer:
        """Publish what is sealed of some shards, a bounded step of it, in one commit if it fits.

        Raises:
            UnavailableError: The process died, now or a moment ago.
            InvalidRequestError: The stream cannot be opened.
            ShardlogError: As opening it raises.
            ClosedError: It was closed meanwhile.
        """
        answer: PublishAnswer = self._process.answer(order)
        return answer

    @override
    def close(self) -> None:
        """End the process; what it had not committed is dropped. A second call does nothing."""
        self._process.close()
