"""The process that builds the files of parts for a writer, as the writer sees it.

It reads as any reader does; its owner publishes what it built. If it dies the next step deletes
what it left, and starts another process (platform/work/process.py).
"""

from typing import Final

from storage_core.errors import UnavailableError
from storage_core.platform.clock import Clock
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.platform.work.process import WorkProcess
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.work import Built, Order, Work
from storage_core.write.opened_shard import ShardContext

_MODULE: Final = "storage_core.tiering.builder_process"
# A million rows take a few seconds; a disk that hangs for longer is taken for dead.
_WORK_MAX_S: Final = 900.0


class PartBuilder(Closing):
    """Builds parts in a process beside this one, for streams that are open here.

    Any thread may call it; one work at a time.

    Example:
        >>> with PartBuilder() as builder:
        ...     stream.maintain(builder).is_idle
        True
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start no process yet."""
        self._process = WorkProcess(_MODULE, "builder", _WORK_MAX_S, clock)

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
        """Tell whether it died so lately that work is refused for now."""
        return self._process.is_paused

    def build(self, context: ShardContext, _view: ShardSnapshot, work: Work) -> Built:
        """Have the files of parts built, and return their entries.

        Raises:
            UnavailableError: It died, now or a moment ago; or what it needs of the system was
                refused.
            CorruptionError: What the parts are built of is damaged.
            ClosedError: It was closed meanwhile.
        """
        order = Order(context.directory.parent.parent, context.meta.name, context.number, work)
        try:
            built: Built = self._process.answer(order)
        except UnavailableError as error:
            raise error.placed(order.stream, order.shard) from error
        return built

    @override
    def close(self) -> None:
        """End the process; what it was building is dropped. A second call does nothing."""
        self._process.close()
