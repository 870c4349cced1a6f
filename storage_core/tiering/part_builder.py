"""The process that makes the files of parts for a writer, as the writer sees it.

It is begun with the first work, waits for more, and ends with its owner however that ends. It reads
as any reader does; what it made its owner publishes. Where it dies its files are nobody's, the next
seal sweeps them, and the next work begins another, after a while that doubles with each death.
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

from storage_core.errors import ClosedError, UnavailableError
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.fork_guard import Home
from storage_core.read.view import ShardView
from storage_core.tiering.part_work import Made, Order, Work, decode_made, encode_order
from storage_core.write.opened_shard import ShardContext

_MODULE: Final = "storage_core.tiering.builder_process"
# Where the package lies, for a process whose paths are not those of this one.
_ROOT: Final = Path(__file__).parents[2]
_REST_FIRST_S: Final = 1.0
_REST_MAX_S: Final = 60.0
# A million rows take a few seconds; a disk that hangs for longer is taken for dead.
_WORK_MAX_S: Final = 900.0
# Of a process that was told to end.
_END_MAX_S: Final = 10.0


class PartMaker:
    """Makes parts in a process beside this one, for streams that are open here.

    Any thread may call it; one work at a time. A context manager.

    Example:
        >>> with PartMaker() as maker:
        ...     stream.maintain(maker).is_idle
        True
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Begin nothing yet."""
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._owes = False
        self._deaths = 0
        self._in_a_row = 0
        self._rests_until_s = 0.0
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
    def is_resting(self) -> bool:
        """Tell whether it died so lately that work is refused for a while."""
        return self._clock.monotonic_s() < self._rests_until_s

    def make(self, context: ShardContext, _view: ShardView, work: Work) -> Made:
        """Have the files of parts made, and return their entries.

        Raises:
            UnavailableError: It died, now or a moment ago; or what it needs of the system was
                refused.
            CorruptionError: What the parts are made of is damaged.
            ClosedError: It was closed meanwhile.
        """
        self._home.refuse_elsewhere()
        order = Order(context.directory.parent.parent, context.meta.name, context.number, work)
        with self._lock:
            try:
                line = self._answer(encode_order(order))
            except UnavailableError as error:
                raise error.placed(order.stream, order.shard) from error
            self._in_a_row = 0
        return decode_made(line)

    def close(self) -> None:
        """End the process; what it was making is dropped. A second call does nothing."""
        self._home.refuse_elsewhere()
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        # Whoever waits for an answer has it: there is none.
        with self._lock:
            self._let_go()

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
        self._drop_interrupted()
        process = self._begun()
        line = b""
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            self._owes = True
            process.stdin.write(order)
            process.stdin.flush()
            if not _has_said(process.stdout):
                process.kill()
            line = process.stdout.readline()
        except OSError:
            # It is gone, as an end without an answer says too.
            pass
        except BaseException:
            process.kill()
            raise
        if line.endswith(b"\n"):
            self._owes = False
            return line
        code = self._let_go()
        self._refuse_if_closed()
        self._deaths += 1
        rest_s = min(_REST_FIRST_S * 2**self._in_a_row, _REST_MAX_S)
        self._in_a_row += 1
        self._rests_until_s = self._clock.monotonic_s() + rest_s
        how = f"by signal {-code}" if code < 0 else f"with {code}"
        message = f"the process that makes parts ended {how}; another begins in {rest_s:g} s"
        raise UnavailableError(message)

    def _drop_interrupted(self) -> None:
        """End a process whose answer nobody took: it would pass for that to the next order."""
        if self._owes and self._process is not None:
            self._process.kill()
            self._let_go()

    def _begun(self) -> "subprocess.Popen[bytes]":
        self._refuse_if_closed()
        if self._process is not None:
            return self._process
        if self.is_resting:
            message = "the process that makes parts died a moment ago; another begins soon"
            raise UnavailableError(message)
        here = str(_ROOT)
        paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            message = f"the process that makes parts cannot begin: {error}"
            raise UnavailableError(message) from error
        if self._is_closed:
            self._let_go()
            self._refuse_if_closed()
        return self._process

    def _let_go(self) -> int:
        """End the process, and return what it ended with."""
        process, self._process = self._process, None
        self._owes = False
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
            message = "the maker of parts is closed"
            raise ClosedError(message)


def _has_said(pipe: IO[bytes]) -> bool:
    """Tell whether something comes, or the end, in the time that a work may take."""
    # Unlike select it takes any descriptor, and writers have thousands.
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(_WORK_MAX_S * 1000))
