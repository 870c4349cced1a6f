"""The process that builds the files of parts for a writer, as the writer sees it.

It is started with the first work, waits for more, and ends with its owner however that ends. It
reads as any reader does; its owner publishes what it built. If it dies the next step deletes what
it left, and starts another process, after a pause that doubles with each death.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from storage_core.errors import ClosedError, ShardlogError, UnavailableError
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.fork_guard import Home
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.work import Built, Order, Work, decode_message, encode_message
from storage_core.write.opened_shard import ShardContext

_MODULE: Final = "storage_core.tiering.builder_process"
# Where the package lies, for a process whose paths are not those of this one.
_ROOT: Final = Path(__file__).parents[2]
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0
# A million rows take a few seconds; a disk that hangs for longer is taken for dead.
_WORK_MAX_S: Final = 900.0
# Of a process that was told to end.
_END_MAX_S: Final = 10.0


class PartBuilder:
    """Builds parts in a process beside this one, for streams that are open here.

    Any thread may call it; one work at a time. A context manager.

    Example:
        >>> with PartBuilder() as builder:
        ...     stream.maintain(builder).is_idle
        True
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start no process yet."""
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._deaths = 0
        self._deaths_in_a_row = 0
        self._paused_until_s = 0.0
        self._home = Home()

    @property
    def deaths(self) -> int:
        """How often the process died."""
        return self._deaths

    @property
    def process_id(self) -> int | None:
        """The process; None where there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def is_paused(self) -> bool:
        """Tell whether it died so lately that work is refused for now."""
        return self._clock.monotonic_s() < self._paused_until_s

    def build(self, context: ShardContext, _view: ShardSnapshot, work: Work) -> Built:
        """Have the files of parts built, and return their entries.

        Raises:
            UnavailableError: It died, now or a moment ago; or what it needs of the system was
                refused.
            CorruptionError: What the parts are built of is damaged.
            ClosedError: It was closed meanwhile.
        """
        self._home.refuse_elsewhere()
        order = Order(context.directory.parent.parent, context.meta.name, context.number, work)
        with self._lock:
            try:
                line = self._answer(encode_message(order))
            except UnavailableError as error:
                raise error.placed(order.stream, order.shard) from error
            self._deaths_in_a_row = 0
        answer = decode_message(line)
        if isinstance(answer, ShardlogError):
            raise answer
        built: Built = answer
        return built

    def close(self) -> None:
        """End the process; what it was building is dropped. A second call does nothing."""
        self._home.refuse_elsewhere()
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        # Whoever waits for an answer has it: there is none.
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        """Enter the context."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _answer(self, order: bytes) -> bytes:
        process = self._started()
        line = b""
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(order)
            process.stdin.flush()
            if not _has_answered(process.stdout):
                process.kill()
            line = process.stdout.readline()
        except OSError:
            # It is gone, as an end without an answer says too.
            pass
        except BaseException:
            # Its answer would pass for that to the next order.
            process.kill()
            self._end()
            raise
        if line.endswith(b"\n"):
            return line
        code = self._end()
        self._refuse_if_closed()
        self._deaths += 1
        pause_s = min(_PAUSE_FIRST_S * 2**self._deaths_in_a_row, _PAUSE_MAX_S)
        self._deaths_in_a_row += 1
        self._paused_until_s = self._clock.monotonic_s() + pause_s
        end = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        message = f"the builder process ended {end}; the next one starts in {pause_s:g} s"
        raise UnavailableError(message)

    def _started(self) -> "subprocess.Popen[bytes]":
        self._refuse_if_closed()
        if self._process is not None:
            return self._process
        if self.is_paused:
            message = "the builder process died a moment ago; the next one starts soon"
            raise UnavailableError(message)
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            message = f"the builder process cannot start: {error}"
            raise UnavailableError(message) from error
        if self._is_closed:
            self._end()
            self._refuse_if_closed()
        return self._process

    def _end(self) -> int:
        """End the process, and return what it ended with."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    # What was not written yet is for nobody.
                    continue
        try:
            return process.wait(_END_MAX_S)
        except subprocess.TimeoutExpired:
            # It ends as soon as its disk lets it.
            process.kill()
            return -signal.SIGKILL

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            message = "the part builder is closed"
            raise ClosedError(message)


def _has_answered(pipe: IO[bytes]) -> bool:
    """Tell whether an answer, or the end, comes in the time that work may take."""
    # Unlike select it takes any descriptor, and writers have thousands.
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(_WORK_MAX_S * 1000))
