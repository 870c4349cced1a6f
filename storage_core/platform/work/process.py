"""A process that works for this one, as its owner sees it.

It is started with the first order, waits for more, and ends with its owner however that ends. If it
dies the next order starts another process, after a pause that doubles with each death.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Final

from storage_core.errors import ClosedError, ShardlogError, UnavailableError
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.fork_guard import Home
from storage_core.platform.work.messages import decode_message, encode_message

# Where the package lies, for a process whose paths are not those of this one.
_ROOT: Final = Path(__file__).parents[3]
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0
# Of a process that was told to end.
_END_MAX_S: Final = 10.0


class WorkProcess:
    """Sends orders to a process, one at a time, and returns its answers. Any thread."""

    def __init__(self, module: str, name: str, work_max_s: float, clock: Clock | None) -> None:
        """Start no process yet.

        Args:
            module: What it runs: something that calls `serve_orders`.
            name: What error messages call it, as "builder".
            work_max_s: What takes longer hangs, and is killed.
            clock: Measures pauses; None for the system's.
        """
        self._module = module
        self._name = name
        self._work_max_s = work_max_s
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
        """How often it died."""
        return self._deaths

    @property
    def process_id(self) -> int | None:
        """The process; None where there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def is_paused(self) -> bool:
        """Tell whether it died so lately that orders are refused for now."""
        return self._clock.monotonic_s() < self._paused_until_s

    def answer(self, order: object) -> Any:  # noqa: ANN401 - of the kind that the module answers
        """Have an order done, and return the answer; once those before it are done.

        Raises:
            UnavailableError: It died, now or a moment ago; or what it needs of the system was
                refused.
            ShardlogError: What it answered.
            ClosedError: It was closed meanwhile.
        """
        self._home.refuse_elsewhere()
        with self._lock:
            line = self._answer(encode_message(order))
            self._deaths_in_a_row = 0
        answer = decode_message(line)
        if isinstance(answer, ShardlogError):
            raise answer
        return answer

    def close(self) -> None:
        """End it; what it was doing is dropped. A second call does nothing."""
        self._home.refuse_elsewhere()
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        # Whoever waits for an answer has it: there is none.
        with self._lock:
            self._end()

    def _answer(self, order: bytes) -> bytes:
        process = self._started()
        line, is_late = b"", False
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(order)
            process.stdin.flush()
            if not _has_answered(process.stdout, self._work_max_s):
                is_late = True
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
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        end = f"ended {how}"
        if is_late:
            end = f"did not answer in {self._work_max_s:g} s and was killed"
        message = f"the {self._name} process {end}; the next one starts in {pause_s:g} s"
        raise UnavailableError(message)

    def _started(self) -> "subprocess.Popen[bytes]":
        self._refuse_if_closed()
        if self._process is not None:
            return self._process
        if self.is_paused:
            message = f"the {self._name} process died a moment ago; the next one starts soon"
            raise UnavailableError(message)
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            message = f"the {self._name} process cannot start: {error}"
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
            message = f"the {self._name} process is closed"
            raise ClosedError(message)


def _has_answered(pipe: IO[bytes], wait_max_s: float) -> bool:
    """Tell whether an answer, or the end, comes in the time that work may take."""
    # Unlike select it takes any descriptor, and writers have thousands.
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(wait_max_s * 1000))
