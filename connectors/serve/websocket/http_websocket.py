"""`GET /ws`: commands and subscriptions over a WebSocket, as session.py answers them.

A page of another origin cannot command through a browser, as by `POST /command`. Browsers cannot
set a header: who needs a token sends it as the first message.
"""

from collections.abc import Callable
from http import HTTPStatus

from connectors.serve.answer_writer import AnswerWriter
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.commands.http_commands import refuse, refuse_other_origin
from connectors.serve.connection import Connection, GoneError
from connectors.serve.http_request import HttpRequest
from connectors.serve.websocket.handshake import accepted
from storage_core import InvalidRequestError, ShardlogError
from storage_core.platform.extras import how_to_install
from storage_core.protocol import AUTHORIZATION


class HttpWebSocket:
    """Answers `GET /ws`. Any thread; a request belongs to that of its connection."""

    def __init__(self, front_end: FrontEnd, is_stopping: Callable[[], bool]) -> None:
        """Answer by the event store of a server, until that is to stop."""
        self._front_end = front_end
        self._is_stopping = is_stopping

    def answer(
        self, connection: Connection, writer: AnswerWriter, request: HttpRequest, *, closes: bool
    ) -> tuple[int, str]:
        """Answer a request, until its WebSocket is closed; return the bytes sent, and the status.

        Raises:
            GoneError: The client is not there any more.
        """
        try:
            authorization = request.headers.get(AUTHORIZATION.lower())
            headers = accepted(request)
            refuse_other_origin(request)
            if authorization is not None:
                self._front_end.tokens.check(authorization, "read")
            try:
                from connectors.serve.websocket.session import SocketSession  # noqa: PLC0415
            except ModuleNotFoundError as error:
                how = how_to_install(error.name or "", "events")
                if how is None:
                    raise
                message = f"WebSockets need more than is installed here: {how}"
                raise InvalidRequestError(message) from error
        except GoneError:
            raise
        except ShardlogError as error:
            return refuse(writer, error, "json", closes=closes, allowed="GET")
        sent = writer.write_switch(headers)
        SocketSession(self._front_end, connection, authorization, self._is_stopping).serve()
        return sent, str(HTTPStatus.SWITCHING_PROTOCOLS.value)
