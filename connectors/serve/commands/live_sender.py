"""One thread that sends new events to all subscribers that have caught up.

A thread for each of them costs more than what it sends: with each event all are woken, and the
interpreter changes hands as often. So a subscriber's own thread reads what was stored before, and
then waits (`tell`) while this one takes its frames and sends them, without waiting for anybody.

It gets its subscriber back, with what is left to be sent, where the client does not take all at
once, something is to be read from the log, or anything fails: no subscriber holds up another.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from connectors.serve.connection import Connection

if TYPE_CHECKING:
    from typed_events.subscriptions.frames import Frame
    from typed_events.subscriptions.subscription import Subscription

_LOOK_EVERY_S: Final = 1.0
_SENT_AT_ONCE: Final = 65_536


class LiveSubscriber:
    """A subscriber that follows, of which one thread at a time takes frames.

    Attributes:
        sent_bytes: How much was sent.
        rest: What the client has not taken yet.
    """

    def __init__(
        self,
        subscription: "Subscription",
        connection: Connection,
        bytes_of: "Callable[[Sequence[Frame]], bytes]",
    ) -> None:
        """Take what makes frames a piece of the answer."""
        self.subscription = subscription
        self.sent_bytes = 0
        self.rest = b""
        self._connection = connection
        self._bytes_of = bytes_of
        self._lock = threading.Lock()
        self._is_told = False
        self._is_back = threading.Event()
        self._failure: Exception | None = None
        # Whether it waits for its turn already.
        self.is_waiting = False

    def give(self) -> None:
        """Have the sender take its frames."""
        self._connection.never_wait()
        self._is_back.clear()
        self._is_told = True

    def await_back(self, wait_s: float) -> bool:
        """Wait until the sender has given it back, or for some seconds; tell whether it has.

        Raises:
            Exception: What has failed there.
        """
        is_back = self._is_back.wait(wait_s)
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            # Its traceback has the frames of both threads, and what they were sending. No cycle:
            # the collector, which would have to free it, comes by rarely.
            del failure
        return is_back

    def take_back(self) -> None:
        """Have the sender take no more frames; what is under way ends before."""
        with self._lock:
            self._is_told = False

    def send_now(self) -> None:
        """Send what there is; of the sender's thread."""
        self.is_waiting = False
        with self._lock:
            if not self._is_told:
                return
            try:
                goes_on = self._send()
            except Exception as error:  # noqa: BLE001 - whatever it is, its own thread ends by it
                self._failure, goes_on = error, False
            if not goes_on:
                self._is_told = False
                self._is_back.set()

    def _send(self) -> bool:
        """Send frames; return whether that can go on without waiting and reading."""
        has_sent = False
        while (frames := self.subscription.take_following(_SENT_AT_ONCE)) is not None:
            if frames:
                has_sent = True
                if not self._send_frames(frames):
                    return False
            elif has_sent:
                # All was sent; whatever comes wakes the sender again.
                return True
            else:
                break
        return self._send_polled()

    def _send_polled(self) -> bool:
        """Send frames one by one, as the subscription tells them."""
        while self.subscription.is_following:
            frame = self.subscription.poll(0)
            if frame is None:
                return self.subscription.is_following
            if not self._send_frames([frame]):
                return False
        return False

    def _send_frames(self, frames: "Sequence[Frame]") -> bool:
        """Send frames; return whether the client took them all."""
        piece = self._bytes_of(frames)
        self.sent_bytes += len(piece)
        self.rest = self._connection.send_now(piece)
        return not self.rest


class LiveSender:
    """The thread; it runs as long as there are subscribers. Any thread tells it of one."""

    def __init__(self) -> None:
        """Begin without subscribers, and without the thread."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._subscribers = 0
        self._waiting: deque[LiveSubscriber] = deque()
        self._woken = threading.Event()

    def __len__(self) -> int:
        """Return how many subscribers it has."""
        return self._subscribers

    def tell(self, subscriber: LiveSubscriber, is_over: Callable[[], bool]) -> bool:
        """Send what a subscriber is told, until it is to read, is slow, or its time is over.

        What was left is sent by whoever calls.

        Args:
            subscriber: The subscriber.
            is_over: Asked now and then; what it raises ends it, too.

        Returns:
            Whether it was tried; not where the system gives no thread.
        """
        if not self._begin():
            return False

        def wake() -> None:
            self._wake(subscriber)

        try:
            subscriber.give()
            subscriber.subscription.listen(wake)
            # For what came before it listened; then, now and then, for heartbeats.
            wake()
            while not subscriber.await_back(_LOOK_EVERY_S) and not is_over():
                wake()
        finally:
            subscriber.subscription.listen(None)
            subscriber.take_back()
            self._end()
        return True

    def _begin(self) -> bool:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="shardlog-live", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
            self._subscribers += 1
            return True

    def _end(self) -> None:
        with self._lock:
            self._subscribers -= 1
        self._woken.set()

    def _wake(self, subscriber: LiveSubscriber) -> None:
        if not subscriber.is_waiting:
            subscriber.is_waiting = True
            self._waiting.append(subscriber)
        if not self._woken.is_set():
            self._woken.set()

    def _run(self) -> None:
        while True:
            self._woken.wait()
            # IMPORTANT: before it looks, so that whoever comes behind this is not missed.
            self._woken.clear()
            while self._waiting:
                self._waiting.popleft().send_now()
            with self._lock:
                if not self._subscribers:
                    self._thread = None
                    return
