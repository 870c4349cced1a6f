"""The process that publishes a writer's shards, as the writer sees it.

It is another than the one that builds parts: a store that is slow keeps no part from being built.
One that dies, or hangs for too long and is killed, has published what it has committed; the next
call goes on behind that.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage_core.errors import UnavailableError
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
    """A shard that is to be published, for whoever opens it by name.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shard: The shard's number.
        target: Where its table is.
    """

    root: Path
    stream: str
    shard: int
    target: LakeTarget


@dataclass(frozen=True, slots=True)
class PublishAnswer:
    """What came of an order.

    Attributes:
        published: What was published.
        part_marks: The marks of the shard's part list from before that.
    """

    published: "ShardPublished"
    part_marks: tuple[int, int]


class LakePublisher(Closing):
    """Publishes shards in a process beside this one.

    Any thread may call it; one shard at a time.
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
        """Publish what is sealed of a shard, a bounded step of it.

        Raises:
            UnavailableError: The store does not answer; or the process died, now or a moment ago.
            ForeignDataError: The table is not the stream's.
            InvalidRequestError: The table cannot be used as it is.
            CorruptionError: A part is damaged.
            ClosedError: It was closed meanwhile.
        """
        try:
            answer: PublishAnswer = self._process.answer(order)
        except UnavailableError as error:
            raise error.placed(order.stream, order.shard) from error
        return answer

    @override
    def close(self) -> None:
        """End the process; what it had not committed is dropped. A second call does nothing."""
        self._process.close()
