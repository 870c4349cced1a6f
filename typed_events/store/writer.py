"""The writer: one thread that has all event streams open, and stores what callers submit.

It takes what waits, up to a number of events, has that stored as one group (group_commit.py), and
answers. Calls, as that of DEFINE, are done between groups, in their turn. The streams are opened
with the first that comes, and again behind a failure: that recovers each log and the journal.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from storage_core import (
    ClosedError,
    Environment,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)
from typed_events.errors import BusyError, ConflictError
from typed_events.store.group_commit import GroupCommit, not_known, storing_failed
from typed_events.store.journal import finish_last
from typed_events.store.lost_versions import define_lost
from typed_events.store.options import EventStoreOptions
from typed_events.store.owned_streams import OwnedStreams
from typed_events.store.submission import Submission, Unit
from typed_events.store.writer_call import WriterCall
from typed_events.types.stored_types import StoredTypes, is_root, refuse_missing_root

T = TypeVar("T")
Item = Submission | WriterCall[Any]
# How long the writer waits for one more, and how often at most.
_MOMENT_S: Final = 0.0005
_MOMENTS_MAX: Final = 8
_log = logging.getLogger(__name__)


class Writer:
    """Stores what any thread submits; its thread begins with the first."""

    def __init__(
        self, root: Path, options: EventStoreOptions, environment: Environment | None
    ) -> None:
        """Write below a root."""
        self._root = root
        self._options = options
        self._environment = environment
        self._process = os.getpid()
        self._groups = GroupCommit(options, (environment or Environment()).clock)
        self._waiting: deque[Item] = deque()
        self._events = 0
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False
        # How many items were in the last group, and at how many the writer is woken.
        self._taken = 0
        self._wake_at = 1
        self._thread: threading.Thread | None = None
        self._streams: OwnedStreams | None = None
        # Those that could not be closed yet behind a failure.
        self._left: OwnedStreams | None = None
        self._close_error: ShardlogError | None = None
        # Called with the types of events behind each commit; it must neither wait nor fail.
        self.stored: Callable[[Iterable[str]], object] = lambda _: None

    # --- of any thread ---------------------------------------------------------------------

    def store(self, units: Sequence[Unit]) -> None:
        """Store units; each has its positions or its error on return.

        Raises:
            BusyError: Too much waits already, or it waited too long; nothing was stored.
            ClosedError: The store is closed; nothing was stored.
            ShardlogError: It is being stored and takes too long: the outcome is open.
        """
        submission = Submission(units)
        self._submit([submission])
        self._wait(submission)

    def store_soon(self, submissions: Sequence[Submission]) -> None:
        """Store submissions without waiting for it; each has ended once `ended` was called.

        One that is not to wait any longer is withdrawn (`withdraw`).

        Raises:
            BusyError: Too much waits already; nothing was stored.
            ClosedError: The store is closed; nothing was stored.
        """
        self._submit(submissions)

    def withdraw(self, item: Item) -> bool:
        """Return whether something waited still, and is not stored now."""
        with self._changed:
            if item not in self._waiting:
                return False
            self._waiting.remove(item)
            self._forget(item)
            return True

    def call(self, function: Callable[[OwnedStreams], T], *, makes_root: bool = False) -> T:
        """Have the writer's thread call a function with the streams; return what it does.

        Raises:
            BusyError: It waited too long and was not called.
            ClosedError: The store is closed.
            ShardlogError: It was called and takes too long: the outcome is open.
        """
        call: WriterCall[T] = WriterCall(function, makes_root)
        self._submit([call])
        self._wait(call)
        if call.error is not None:
            raise call.error
        result: Any = call.result
        returned: T = result
        return returned

    def refuse_if_closed(self) -> None:
        """Refuse what is asked of a closed store, or by a fork of its parent's.

        Raises:
            ClosedError: It is closed.
            InvalidRequestError: This process did not open it.
        """
        if os.getpid() != self._process:
            message = "the store of events was opened in another process: open one here"
            raise InvalidRequestError(message)
        if self._is_closed:
            message = "the store of events is closed"
            raise ClosedError(message)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process opened it, and is no fork of that."""
        return os.getpid() == self._process

    def is_root(self) -> bool:
        """Tell whether the root is there."""
        return is_root(self._root)

    @property
    def wait_max_s(self) -> float:
        """How long something waits for its turn."""
        return self._options.wait_max_s

    @property
    def is_writing(self) -> bool:
        """Whether something was ever submitted."""
        return self._thread is not None

    @property
    def types(self) -> StoredTypes | None:
        """The types, as long as nobody else can define one: while the streams are open here."""
        streams = self._streams
        return None if streams is None else streams.stored_types

    def close(self) -> None:
        """Store what waits, and close the streams; closing twice is fine.

        Raises:
            ShardlogError: The last commit failed, or a stream could not be closed.
        """
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        error, self._close_error = self._close_error, None
        if error is not None:
            raise error

    def _submit(self, items: Sequence[Item]) -> None:
        # Before a lock is asked for: in a fork its holder may be a thread that is not there.
        self.refuse_if_closed()
        with self._changed:
            self.refuse_if_closed()
            self._refuse_if_full(items)
            for item in items:
                self._waiting.append(item)
                self._events += item.events
                self._bytes += item.size
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="typed-events-writer", daemon=True
                )
                self._thread.start()
            if len(self._waiting) >= self._wake_at or isinstance(items[0], WriterCall):
                self._changed.notify()

    def _refuse_if_full(self, items: Sequence[Item]) -> None:
        options = self._options
        events, size = sum(item.events for item in items), sum(item.size for item in items)
        is_full = (
            self._events + events > options.queue_events_max
            or self._bytes + size > options.queue_bytes_max
        )
        if is_full and self._waiting:
            message = f"{self._events} events wait already; nothing was stored, send it again later"
            raise BusyError(message)

    def _wait(self, item: Item) -> None:
        if item.done.wait(self._options.wait_max_s):
            return
        if self.withdraw(item):
            raise waited_too_long(self._options.wait_max_s)
        # It is being stored. The log's own waits are bounded; a disk that hangs is not.
        if not item.done.wait(self._options.wait_max_s):
            raise stored_too_long(self._options.wait_max_s)

    def _forget(self, item: Item) -> None:
        self._events -= item.events
        self._bytes -= item.size

    # --- of the writer's thread ------------------------------------------------------------

    def _run(self) -> None:
        while items := self._take():
            try:
                self._serve(items)
            except Exception as error:  # noqa: BLE001 - the outermost loop; who waits is told
                _log.exception("storing events has failed")
                _fail(items, error)
                self._abandon()
            except BaseException as error:  # noqa: BLE001 - who waits is told, whatever ends the thread
                _log.critical("the writer of events ends: %r", error)
                self._end(items, error)
                return
        self._close_streams()

    def _end(self, items: list[Item], error: BaseException) -> None:
        """Leave all as it is: nothing more is stored, and the streams stay locked."""
        with self._changed:
            self._is_closed = True
            left = [*items, *self._waiting]
            self._waiting.clear()
        _fail(left, error)

    def _take(self) -> list[Item]:
        """Return submissions that make a group, or one call; nothing once it is closed."""
        with self._changed:
            self._await_some()
            while not self._waiting and not self._is_closed:
                # Those for whom it began waited too long, and are gone.
                self._await_some()
            items: list[Item] = []
            events = 0
            while self._waiting and events < self._options.group_events_max:
                if items and isinstance(self._waiting[0], WriterCall):
                    break
                item = self._waiting.popleft()
                self._forget(item)
                items.append(item)
                events += item.events
                if isinstance(item, WriterCall):
                    break
            self._taken = len(items)
            return items

    def _await_some(self) -> None:
        """Wait until something is submitted; then for those who are about to, too.

        They are as many as had something under way when the last group was answered: without the
        wait those just answered would come too late for each group, and make up the next. It goes
        on as long as more come, and no longer than some groups take.
        """
        expected = self._taken + len(self._waiting)
        self._wake_at = 1
        while not self._waiting and not self._is_closed:
            self._changed.wait()
        for _ in range(_MOMENTS_MAX):
            came = len(self._waiting)
            if came >= expected or self._is_closed:
                break
            self._wake_at = expected
            self._changed.wait(_MOMENT_S)
            self._wake_at = 1
            if len(self._waiting) <= came:
                break

    def _serve(self, items: list[Item]) -> None:
        first = items[0]
        try:
            streams = self._owned(makes_root=isinstance(first, WriterCall) and first.makes_root)
        except ShardlogError as error:
            for item in items:
                item.fail(error)
            return
        if isinstance(first, WriterCall):
            first.answer(streams)
            if _is_fatal(first.error):
                self._abandon()
            first.done.set()
            return
        submissions = [item for item in items if isinstance(item, Submission)]
        units = [unit for submission in submissions for unit in submission.units]
        if not self._groups.store(units, streams):
            self._abandon()
        for submission in submissions:
            submission.done.set()
        # All have ended before who waits for several is told, once.
        for ended in {one.ended for one in submissions if one.ended is not None}:
            ended()
        self.stored({row.event_type for unit in units for row in unit.rows})

    def _owned(self, *, makes_root: bool) -> OwnedStreams:
        """Return the streams; open them first, and finish what a crash left, if they are not."""
        self._close_left()
        if self._streams is None:
            if not makes_root:
                refuse_missing_root(self._root)
            streams = OwnedStreams.open(self._root, self._options, self._environment)
            try:
                finish_last(streams)
                define_lost(streams)
            except BaseException:
                streams.abandon()
                raise
            self._groups.forget()
            self._streams = streams
        return self._streams

    def _abandon(self) -> None:
        """Close the streams behind a failure; the next that is stored opens them again."""
        self._left, self._streams = self._streams, None
        self._close_left(is_raised=False)

    def _close_left(self, *, is_raised: bool = True) -> None:
        if self._left is None:
            return
        if self._left.abandon():
            self._left = None
        elif is_raised:
            message = "streams of events are still held by a call that goes on; send it again later"
            raise BusyError(message)

    def _close_streams(self) -> None:
        streams, self._streams = self._streams, None
        try:
            if streams is not None:
                streams.close()
            self._close_left(is_raised=False)
        except ShardlogError as error:
            self._close_error = error
        self._groups.close()


def waited_too_long(seconds: float) -> BusyError:
    """Return what is said of what waited for its turn, in vain."""
    message = f"it waited {seconds:g} s for its turn; nothing was stored, send it again later"
    return BusyError(message)


def stored_too_long(seconds: float) -> ShardlogError:
    """Return what is said of what is being stored for too long."""
    return not_known(f"storing took more than {seconds:g} s")


def _fail(items: list[Item], error: BaseException) -> None:
    unknown = not_known(storing_failed(error))
    for item in items:
        item.fail(unknown)


def _is_fatal(error: BaseException | None) -> bool:
    """Tell whether streams must be opened again behind an error."""
    return error is not None and not isinstance(
        error, InvalidRequestError | ConflictError | UnavailableError
    )
