"""The server that a worker has beside it, as the worker sees it: started, watched, started again.

The worker listens itself, so an address that cannot be had ends it at once with one line, and a
server that is started again is found where the last one was. A thread of its own waits for the
process; the worker's loop never does. A server that dies is started again after a pause that grows
to 10 s, without end: it costs readers, and no record. One that stands still is killed, since it
would keep the address and answer nobody.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Final

from connectors.monitoring.listening import bound_socket, check_host
from connectors.monitoring.served_state import ServedState
from connectors.serve.health_check import answers
from connectors.serve.settings import settings_beside_worker
from connectors.serve.tls import Certificate
from connectors.serve.tokens import Tokens
from connectors.settings.operations_settings import is_loopback, join_address
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core import Clock, UnavailableError

_LISTEN_OPTION: Final = "serve.listen"
# The server of a worker that was killed a moment ago may still have the address.
_BIND_WITHIN_S: Final = 3.0
_BIND_PAUSE_S: Final = 0.1
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 10.0
# One that ran for so long is no server that dies again and again.
_SOUND_AFTER_S: Final = 60.0
_END_WITHIN_S: Final = 3.0
_START_MAX_S: Final = 300.0
# Its health is asked for as often. A machine that hardly gets on lets one question pass or two.
_ASKED_EVERY_S: Final = 5.0
_ANSWER_MAX_S: Final = 10.0
_UNANSWERED_MAX: Final = 3
# A pipe has room for some of them, so a server that reads none holds this thread up no longer than
# it takes to be killed.
_LAGS_BYTES_MAX: Final = 16_384
# They may be meant for the worker's whole group.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def check_serving(root: Path, section: WorkerServeSettings, clock: Clock) -> str | None:
    """Refuse what the server beside a worker would: the worker does, and so does `--check`.

    Returns:
        What is wrong with the time of the certificate, with which a server starts all the same.

    Raises:
        InvalidRequestError: The address, a token's or a certificate's file cannot be used.
    """
    settings = settings_beside_worker(root, section)
    check_host(section.listen, _LISTEN_OPTION)
    Tokens(settings.read_tokens, settings.write_tokens, clock)
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_certificate, settings.tls_key, clock).out_of_date()


class ServerChild:
    """A server beside a worker. `close` ends it; any thread may ask for its state."""

    def __init__(  # noqa: PLR0913 - what a server is told
        self,
        root: Path,
        section: WorkerServeSettings,
        version: str,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger
        *,
        has_page: bool = True,
    ) -> None:
        """Listen, and have the server started.

        Raises:
            InvalidRequestError: The address, a token's or a certificate's file cannot be used.
            UnavailableError: Another process has the address.
        """
        self._clock = clock
        self._log = log
        check_serving(root, section, clock)
        self._listener = _bound(section.listen, clock)
        self._place: tuple[str, int] = self._listener.getsockname()[:2]
        host, port = self._place
        self.address = join_address(host, port)
        self.is_open_to_others = not is_loopback(host)
        order = {
            "root": str(root.absolute()),
            "version": version,
            "serve": section.model_dump(mode="json"),
            "page": has_page,
        }
        self._has_tls = section.tls_cert is not None
        self._order = json.dumps(order).encode() + b"\n"
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: Popen[bytes] | None = None
        self._is_ready = False
        self._restarts = 0
        # Tells the lag of each stream, once the worker runs; it may wait a second.
        self.lags: Callable[[], Mapping[str, int]] | None = None
        self._thread = threading.Thread(target=self._watch, name="shardlog-serve", daemon=True)
        self._thread.start()

    @property
    def state(self) -> ServedState:
        """Whether it answers, and how often it was started again."""
        process = self._process
        is_running = self._is_ready and process is not None and process.poll() is None
        return ServedState(
            self.address, is_running, self._restarts, process.pid if is_running and process else 0
        )

    def close(self) -> None:
        """End the server: it stops at once to listen; answers have some seconds."""
        self._stopping.set()
        with self._lock:
            # Under the lock: none is started with a number that is no socket any more.
            self._listener.close()
            process = self._process
        if process is not None:
            _end(process)
        self._thread.join(_END_WITHIN_S)

    def _watch(self) -> None:
        # What this thread starts has them blocked from its first moment on.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pause = _PAUSE_FIRST_S
        while not self._stopping.is_set():
            begun_s = self._clock.monotonic_s()
            reason = self._run()
            if self._stopping.is_set():
                return
            if self._clock.monotonic_s() - begun_s > _SOUND_AFTER_S:
                pause = _PAUSE_FIRST_S
            self._restarts += 1
            self._log.warning(
                "server died, starting it again",
                address=self.address,
                reason=reason,
                pause_s=pause,
                times=self._restarts,
            )
            self._stopping.wait(pause)
            pause = min(2 * pause, _PAUSE_MAX_S)

    def _run(self) -> str:
        """Run the server once; return why it ended."""
        try:
            process = self._started()
        except OSError as error:
            return f"the process cannot be started: {error.strerror or error}"
        if process is None:
            return "the worker stops"
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.write(self._order)
            process.stdin.flush()
        late = threading.Timer(_START_MAX_S, process.kill)
        late.daemon = True
        late.start()
        failed = _failure_of(process.stdout)
        late.cancel()
        if failed is None:
            self._is_ready = True
            self._log.info("serving", address=self.address, pid=process.pid)
            failed = self._await_silence(process)
        code = process.wait()
        self._is_ready = False
        process.stdout.close()
        with suppress(OSError):
            process.stdin.close()
        return failed or f"the process ended with {code}"

    def _await_silence(self, process: Popen[bytes]) -> str | None:
        """Wait until a server ends, or kill it once it stands still; return why it was killed."""
        unanswered = 0
        while unanswered < _UNANSWERED_MAX:
            try:
                process.wait(_ASKED_EVERY_S)
            except TimeoutExpired:
                is_answered = answers(self._place, _ANSWER_MAX_S, has_tls=self._has_tls)
                unanswered = 0 if is_answered else unanswered + 1
                self._is_ready = is_answered
                if is_answered:
                    self._tell_lags(process)
            else:
                return None
        process.kill()
        return f"it did not answer {unanswered} times in {_ANSWER_MAX_S:g} s, and was killed"

    def _tell_lags(self, process: Popen[bytes]) -> None:
        """Tell a server that answers how far behind its streams are."""
        if self.lags is None or process.stdin is None:
            return
        line = json.dumps({"lags": dict(self.lags())}).encode() + b"\n"
        if len(line) <= _LAGS_BYTES_MAX:
            with suppress(OSError, ValueError):
                process.stdin.write(line)
                process.stdin.flush()

    def _started(self) -> Popen[bytes] | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            number = self._listener.fileno()
            self._process = Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-m", "connectors.serve.server_process", str(number)],
                stdin=PIPE,
                stdout=PIPE,
                pass_fds=(number,),
            )
            return self._process


def _bound(listen: str, clock: Clock) -> Any:  # noqa: ANN401 - a socket
    until_s = clock.monotonic_s() + _BIND_WITHIN_S
    while True:
        try:
            return bound_socket(listen, _LISTEN_OPTION)
        except UnavailableError:
            if clock.monotonic_s() >= until_s:
                raise
        clock.sleep(_BIND_PAUSE_S)


def _failure_of(lines: Iterable[bytes]) -> str | None:
    """Return what a server says that did not start; None of one that did.

    What an interpreter's own start prints there, as a `sitecustomize` may, says nothing.
    """
    for line in lines:
        with suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict) and "failed" in message:
                return str(message["failed"])
            if isinstance(message, dict) and "ready" in message:
                return None
    return "it ended before it answered; its standard error has more"


def _end(process: Popen[bytes]) -> None:
    with suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(_END_WITHIN_S)
    except TimeoutExpired:
        process.kill()
