"""`GET /status`: who the server is, and how each stream of its root stands, as JSON.

    {"server": {"version", "uptime_s", "events_owner"},
     "streams": [{"name", "kind", "shards", "committed", "rows", "hot_rows", "parts", …}]}

A stream that cannot be read has `error` in the place of its figures; the others are told of. One
that there was no time for yet has `pending`, one that is told as it was has `age_s`.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from connectors.serve.answer_writer import AnswerWriter
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.connection import Connection
from connectors.serve.http_request import HttpRequest
from connectors.serve.open_streams import OpenStreams
from connectors.serve.refusals import RefusedError
from connectors.serve.status.stream_status import StreamStatuses
from storage_core import ShardlogError, list_streams
from storage_core.protocol import AUTHORIZATION, MEDIA_JSON

_LAGS_HOLD_S: Final = 30.0
_HEADERS: Final = {"Content-Type": MEDIA_JSON, "Cache-Control": "no-store"}


class HttpStatus:
    """Answers `GET /status`. Any thread; what many ask for at once is read by one after the other.

    Those who waited meanwhile share one reading.
    """

    def __init__(
        self,
        root: Path,
        streams: OpenStreams,
        front_end: FrontEnd,
        server: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Tell of a root.

        Args:
            root: The root.
            streams: Its streams, as the server has them open.
            front_end: Who has the event streams, and who may ask.
            server: Tells who the server is.
        """
        self._root = root
        self._events = front_end.events
        self._tokens = front_end.tokens
        self._server = server
        self._statuses = StreamStatuses(root, streams, front_end.clock)
        self._clock = front_end.clock
        self._lock = threading.Lock()
        # What was read last, and when that began.
        self._last: tuple[float, list[Mapping[str, Any]]] | None = None
        # One value, so that no thread sees lags of one moment with the time of another.
        self._lags: tuple[float, Mapping[str, int]] = (self._clock.monotonic_s(), {})

    def note_lags(self, lags: Mapping[str, int]) -> None:
        """Take note of how many records streams lack of their topics. Any thread."""
        self._lags = (self._clock.monotonic_s(), lags)

    def answer(
        self, connection: Connection, writer: AnswerWriter, request: HttpRequest, *, closes: bool
    ) -> tuple[int, str]:
        """Answer a request; return the bytes sent, and the status.

        Raises:
            ShardlogError: The client may not ask, or the root cannot be read.
        """
        del connection
        self._tokens.check(request.headers.get(AUTHORIZATION.lower()), "read")
        if request.method == "POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "the status is asked for by GET")
        streams = self._streams_since(self._clock.monotonic_s())
        document = {
            "server": {**self._server(), "events_owner": self._events.owner},
            "streams": streams,
        }
        body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        sent = writer.write_whole(HTTPStatus.OK, _HEADERS, body, closes=closes)
        return sent, str(HTTPStatus.OK.value)

    def _streams_since(self, asked_s: float) -> list[Mapping[str, Any]]:
        with self._lock:
            # Of those who waited one reads, for all of them.
            if self._last is None or self._last[0] <= asked_s:
                self._last = (self._clock.monotonic_s(), self._streams())
            return self._last[1]

    def _streams(self) -> list[Mapping[str, Any]]:
        names = list_streams(self._root)
        kinds, lags = self._kinds_of_types(), self._current_lags()
        streams = self._statuses.all_of(names)
        return [_completed(values, kinds, lags) for values in streams]

    def _current_lags(self) -> Mapping[str, int]:
        """Return the lags that are known; those of a worker that stands still are of the past."""
        noted_s, lags = self._lags
        return lags if self._clock.monotonic_s() - noted_s < _LAGS_HOLD_S else {}

    def _kinds_of_types(self) -> Mapping[str, str]:
        """Return what kind of stream each type is; of types that cannot be read nothing."""
        try:
            return self._events.kinds_of_types()
        except ShardlogError:
            # The stream of types tells itself what is wrong.
            return {}


def _completed(
    values: Mapping[str, Any], kinds: Mapping[str, str], lags: Mapping[str, int]
) -> Mapping[str, Any]:
    """Return what is told of a stream with what others know of it."""
    name, kind = values["name"], values.get("kind")
    if kind == "log" and name in kinds:
        return {**values, "kind": kinds[name]}
    return {**values, "lag": lags.get(name)} if kind == "kafka" else values
