"""The process that begins shards from their lake for a worker, as the worker sees it.

A store that does not answer, and the heads of many ids, keep an interpreter busy, or to themselves:
delta-rs holds it while it waits for some answers. So the worker has it done beside it. A process
that dies has changed nothing, or has begun some of the shards; the next call goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from storage_core.errors import UnavailableError
from storage_core.lake.target import LakeTarget
from storage_core.platform.clock import Clock
from storage_core.platform.closing import Closing
from storage_core.platform.overriding import override
from storage_core.platform.work.process import WorkProcess

if TYPE_CHECKING:
    from storage_core.lake.beginning.begin import BegunShard
    from storage_core.lake.beginning.positions import LakePosition

_MODULE: Final = "storage_core.lake.beginning.starter_process"
# The heads of hundreds of millions of ids are read in that time. What takes longer hangs.
_WORK_MAX_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Shards of a stream that are to be looked up in its table, or to begin from it.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shards: The shards' numbers.
        target: Where its table is.
        is_to_begin: Whether they begin; else they are looked up.
        expire: Whether what the stream's retention has taken by now is hidden in those that begin.
    """

    root: Path
    stream: str
    shards: tuple[int, ...]
    target: LakeTarget
    is_to_begin: bool
    expire: bool = False


class LakeStarter(Closing):
    """Looks shards up in their table, and begins them from it, in a process beside this one.

    Any thread may call it; one call at a time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start no process yet."""
        self._process = WorkProcess(_MODULE, "lake starter", _WORK_MAX_S, clock)

    def positions(
        self, root: Path, stream: str, shards: Sequence[int], target: LakeTarget
    ) -> "dict[int, LakePosition]":
        """Return what `lake_positions` does, and raise what it raises.

        Raises:
            UnavailableError: The process died, too.
            ClosedError: It was closed meanwhile.
        """
        order = StartOrder(root, stream, tuple(shards), target, is_to_begin=False)
        answer: dict[int, LakePosition] = self._answer(order)
        return answer

    def begin(
        self,
        root: Path,
        stream: str,
        shards: Sequence[int],
        target: LakeTarget,
        *,
        expire: bool = False,
    ) -> "dict[int, BegunShard]":
        """Return what `begin_from_lake` does, and raise what it raises.

        Raises:
            UnavailableError: The process died, too.
            ClosedError: It was closed meanwhile.
        """
        order = StartOrder(root, stream, tuple(shards), target, is_to_begin=True, expire=expire)
        answer: dict[int, BegunShard] = self._answer(order)
        return answer

    def _answer(self, order: StartOrder) -> Any:  # noqa: ANN401 - of the kind that was ordered
        try:
            return self._process.answer(order)
        except UnavailableError as error:
            raise error.placed(order.stream) from error

    @override
    def close(self) -> None:
        """End the process; what it had not finished counts for nothing. A second call is none."""
        self._process.close()
