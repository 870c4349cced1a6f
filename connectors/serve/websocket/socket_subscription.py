"""A subscription over a WebSocket: a thread that sends its frames, each a message of JSON.

    {"subscription": 1, "event": "row", "checkpoint": "order/0:42", "row": {…}}
    {"subscription": 1, "event": "checkpoint", "checkpoint": "order/0:42"}

`caught_up` and `heartbeat` are as `checkpoint`; `ended`, with status and message, is the last one.
"""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from connectors.output_formats.json_text import json_text
from connectors.serve.connection import Connection, GoneError
from connectors.serve.websocket.message_socket import MessageSocket
from storage_core import Clock, ShardlogError, UnavailableError
from typed_events.answer import Status
from typed_events.refusals import message_of, status_of

if TYPE_CHECKING:
    from typed_events.subscriptions.frames import Frame
    from typed_events.subscriptions.subscription import Subscription

_LOOK_EVERY_S: Final = 1.0
_SENT_AT_ONCE: Final = 65_536


class SocketSubscription:
    """Sends the frames of a subscription until it is closed, fails, or has lasted long enough."""

    def __init__(
        self,
        number: int,
        subscription: "Subscription",
        sockets: tuple[Connection, MessageSocket],
        until_s: float,
        clock: Clock,
    ) -> None:
        """Begin with `start`.

        Args:
            number: What its messages say it is.
            subscription: Where frames come from.
            sockets: The connection, and the WebSocket over it.
            until_s: When it ends.
            clock: Time.
        """
        self._number = number
        self._subscription = subscription
        self._connection, self._socket = sockets
        self._until_s = until_s
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shardlog-subscription", daemon=True)

    @property
    def is_over(self) -> bool:
        """Whether it sends nothing any more."""
        return self._stopping.is_set() or (
            self._thread.ident is not None and not self._thread.is_alive()
        )

    def start(self) -> None:
        """Begin to send, with the answer to the command.

        Raises:
            UnavailableError: The system gives no thread.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            self._subscription.close()
            message = "the system gives no thread for a subscription"
            raise UnavailableError(message) from error

    def close(self, within_s: float) -> None:
        """End it; what is being sent has some seconds."""
        self._stopping.set()
        self._subscription.close()
        if self._thread.ident is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        answer = {"status": Status.OK, "message": "subscribed", "subscription": self._number}
        try:
            self._socket.send_texts([json_text({**answer, "rows": [], "count": 0})])
            self._send_frames()
        except GoneError:
            # Whoever waits for the client's messages sees that it is gone.
            self._connection.cut()
        finally:
            self._subscription.close()

    def _send_frames(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._clock.monotonic_s() >= self._until_s:
                    self._tell_end(
                        Status.OK,
                        "it has lasted as long as an answer may: go on from the last checkpoint",
                    )
                    return
                frame = self._subscription.poll(_LOOK_EVERY_S)
                texts: list[str] = []
                size = 0
                while frame is not None and not self._stopping.is_set():
                    for text in self._texts_of(frame):
                        texts.append(text)
                        size += len(text)
                        if size >= _SENT_AT_ONCE:
                            self._socket.send_texts(texts)
                            texts, size = [], 0
                    frame = self._subscription.poll(0)
                if texts:
                    self._socket.send_texts(texts)
        except GoneError:
            raise
        except ShardlogError as error:
            if not self._stopping.is_set():
                self._tell_end(status_of(error), message_of(error))

    def _tell_end(self, status: Status, message: str) -> None:
        said = {"subscription": self._number, "event": "ended", "status": status}
        self._socket.send_texts([json_text({**said, "message": message})])

    def _texts_of(self, frame: "Frame") -> Iterator[str]:
        # The frames come with what typed events need, which servers do without.
        from connectors.serve.commands.frame_texts import json_rows  # noqa: PLC0415
        from typed_events.subscriptions.frames import (  # noqa: PLC0415
            CaughtUp,
            Checkpoint,
            Rows,
        )

        if isinstance(frame, Rows):
            for checkpoint, row in zip(frame.checkpoints(), json_rows(frame), strict=True):
                head = json_text(self._said("row", checkpoint))
                yield f'{head[:-1]}, "row": {row}}}'
        elif isinstance(frame, Checkpoint):
            yield json_text(self._said("checkpoint", frame.text))
        else:
            event = "caught_up" if isinstance(frame, CaughtUp) else "heartbeat"
            yield json_text(self._said(event, frame.checkpoint))

    def _said(self, event: str, checkpoint: str) -> dict[str, object]:
        return {"subscription": self._number, "event": event, "checkpoint": checkpoint}
