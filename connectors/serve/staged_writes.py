"""The calls that write: rows staged as they come, transactions made durable.

Nothing a client sends names a path: streams by their names, which the catalog checks, transactions
by their ids, of which a digest names a directory, and what was staged by names that were given out
here (storage_core/transactions/attempt_note.py).

A web page cannot make these calls through a browser: they need a header that a page may send only
once it was allowed to, and no answer here does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.serve.answer_slots import AnswerSlots
from connectors.serve.connection import Connection
from connectors.serve.figures import Figures
from connectors.serve.http_request import HttpRequest
from connectors.serve.landings import Landings
from connectors.serve.refusals import RefusedError
from connectors.serve.rows_body import RowsBody
from connectors.serve.settings import Bounds
from storage_core import Clock, ForeignDataError, StagingArea
from storage_core.landing import IDLE_S, OpenWriters
from storage_core.protocol import INCARNATION, PROTOCOL, Call
from storage_core.staged_answers import create, land, stage, staged_result_of, transaction_named


class StagedWrites:
    """Answers the calls that write, for the streams of a root. Any thread."""

    def __init__(self, root: Path, bounds: Bounds, clock: Clock, figures: Figures) -> None:
        """Open nothing yet."""
        self._root = root
        self._bounds = bounds
        self._clock = clock
        self._figures = figures
        self._of_queries, self._of_batches = OpenWriters(IDLE_S), OpenWriters(0)
        self.slots = AnswerSlots(bounds.stagings, bounds, clock, "requests stage their rows")
        self.landings = Landings(bounds, clock)

    def result(
        self,
        connection: Connection,
        request: HttpRequest,
        call: Call,
        stream: str,
        values: Mapping[str, Any],
    ) -> object:
        """Return what a call returns.

        Raises:
            ShardlogError: What the same call by path raises, or a bound was met.
        """
        if PROTOCOL.lower() not in request.headers:
            raise RefusedError(400, f"a call that writes needs the header {PROTOCOL}")
        if call.name == "create":
            create(self._root, stream, values["options"])
            return None
        area = StagingArea.open(self._root, stream, clock=self._clock)
        expected = request.headers.get(INCARNATION.lower())
        if expected is not None and expected != area.incarnation:
            message = (
                "the stream was made anew while it was open at the client; write the frame again, "
                "a streaming query needs a new checkpoint"
            )
            raise ForeignDataError(message, stream=stream)
        match call.name:
            case "stage":
                return self._staged(connection, area, values)
            case "land":
                return self._landed(area, stream, values)
        return staged_result_of(area, call, values)

    def close(self) -> None:
        """Wait for transactions that are being made durable, a while, and close the writers."""
        self.landings.close(self._bounds.stop_s)
        self._of_queries.close()

    def _staged(
        self, connection: Connection, area: StagingArea, values: Mapping[str, Any]
    ) -> object:
        size = connection.rows_left
        if size > self._bounds.staged_bytes:
            message = (
                f"{size} bytes of rows; {self._bounds.staged_bytes} are the most of a request "
                "(--stage-mib-max)"
            )
            raise RefusedError(413, message)
        with self.slots.taking(connection):
            until_s = self._clock.monotonic_s() + self._bounds.answer_s
            parts, rows = stage(area, values, RowsBody(connection, until_s))
        self._figures.add("staged_rows", rows)
        self._figures.add("staged_bytes", size)
        return parts

    def _landed(self, area: StagingArea, stream: str, values: Mapping[str, Any]) -> object:
        writers = self._of_queries if values.get("keeps", False) else self._of_batches
        # With other rows it is not the same: those are refused, or published in their place.
        rows = tuple(values.get("parts", ())), values.get("contents")
        late = self.landings.land(
            (stream, area.incarnation, transaction_named(values), rows),
            lambda: land(area, writers, values),
            values["wait"],
        )
        if late is None:
            return {"is_done": False, "late": 0}
        self._figures.add("landed")
        return {"is_done": True, "late": late}
