"""Who does a command: the event store of a root on this machine, or a server over one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, unquote

import pyarrow as pa

from connectors.output_formats.answer_forms import MEDIA_TYPES
from connectors.serve.commands.bodies import answered, parsed_text
from connectors.serve.commands.event_commands import EventCommands
from connectors.serve.commands.http_commands import MESSAGE
from connectors.serve.figures import Figures
from storage_core import InvalidRequestError, ServerOptions, ShardlogError, SystemClock
from storage_core.platform.overriding import override
from storage_core.protocol import AUTHORIZATION, RowStream, bearer
from storage_core.remote.addresses import names_servers, parse_servers
from storage_core.remote.connections import (
    TRANSPORT_ERRORS,
    Connections,
    Question,
    translated,
)
from storage_core.remote.connections import Answer as HttpAnswer
from typed_events.answer import Answer, Status
from typed_events.refusals import refusal

# As long as a server lets an answer take.
_PATIENCE_S: Final = 3600.0
_PATH: Final = "/command"
_SUBSCRIBE: Final = "SUBSCRIBE"
_STATUSES: Final = {str(status): status for status in Status}


class Commander(Protocol):
    """Does commands."""

    def execute(self, text: str) -> Answer:
        """Do one command, or several of which the last alone may ask for rows.

        Raises:
            ShardlogError: A server cannot be reached, or does not want to.
        """
        ...

    def close(self) -> None:
        """Give up what it has."""
        ...


def commander_of(root: str) -> Commander:
    """Return who does commands over a root.

    Raises:
        ShardlogError: An address, the token or a certificate is wrong.
    """
    return ServerCommander(root) if names_servers(root) else LocalCommander(Path(root))


class LocalCommander:
    """Does commands by an event store of its own."""

    def __init__(self, root: Path) -> None:
        """Open nothing before the first command."""
        self._events = EventCommands(root, SystemClock(), Figures("", root))

    def execute(self, text: str) -> Answer:
        """Do the commands of a text."""
        try:
            return answered(parsed_text(text, self._events), self._events, _anybody_may_write)
        except ShardlogError as error:
            return refusal(error)

    def close(self) -> None:
        """Close the store."""
        self._events.close()


class ServerCommander:
    """Has a server do commands."""

    def __init__(self, servers: str) -> None:
        """Connect when the first is done."""
        named = parse_servers(servers)
        if len(named.addresses) > 1:
            message = f"commands go to one server, and {servers} are {len(named.addresses)}"
            raise InvalidRequestError(message)
        self._options = ServerOptions()
        self._connections = Connections(
            named.addresses[0],
            self._options.connect_timeout.total_seconds(),
            self._options.timeout.total_seconds(),
            self._options.tls_context() if named.is_encrypted else None,
        )

    def execute(self, text: str) -> Answer:
        """Send the commands, on a connection of their own: nothing is ever sent twice.

        Raises:
            ShardlogError: The server cannot be reached, or wants another token.
        """
        headers = {"Accept": MEDIA_TYPES["arrow"], "Content-Type": "text/plain; charset=utf-8"}
        token = self._options.current_token()
        if token is not None:
            headers[AUTHORIZATION] = bearer(token)
        question = Question("POST", _PATH, text.encode("utf-8", "replace"))
        if text.lstrip()[: len(_SUBSCRIBE)].upper() == _SUBSCRIBE:
            target = f"/subscribe?command={quote(text.strip(), errors='replace')}"
            question = Question("GET", target)
        answer = self._connections.ask(question, headers, _PATIENCE_S)
        media = (answer.header("Content-Type") or "").partition(";")[0]
        if media == MEDIA_TYPES["arrow"]:
            return _of_rows(answer)
        with closing(answer):
            return _of_failure(answer.status, answer.body(), answer.address.text)

    def close(self) -> None:
        """Close what is open."""
        self._connections.close()


def _of_rows(answer: HttpAnswer) -> Answer:
    message = unquote(answer.header(MESSAGE) or str(Status.OK))
    with ExitStack() as undo:
        undo.callback(answer.close)
        rows = RowStream(answer.response, answer.address.text)
        if not len(rows.schema):
            # Whether it came to its end is known once it has.
            rows.read_all()
            return Answer(message=message)
        undo.pop_all()
    return Answer(message=message, schema=rows.schema, batches=_Rows(answer, rows))


class _Rows(Iterator[pa.RecordBatch]):
    """The rows of an answer; whoever does not take all of them closes it."""

    def __init__(self, answer: HttpAnswer, rows: RowStream) -> None:
        self._answer = answer
        self._rows = rows

    @override
    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._rows)
        except StopIteration:
            self.close()
            raise
        except TRANSPORT_ERRORS as error:
            raise translated(error, self._answer.address, "while it answered") from error

    def close(self) -> None:
        self._answer.close()


def _of_failure(code: int, body: bytes, server: str) -> Answer:
    try:
        said = json.loads(body)
        status = _STATUSES[said["status"]]
        message, rows = str(said["message"]), said["rows"]
    except (ValueError, KeyError, TypeError) as error:
        text = f"{server} answered {code} without saying why; it may be no shardlog server"
        raise ShardlogError(text) from error
    if not rows:
        return Answer(status, message)
    batch = pa.RecordBatch.from_pylist(rows)
    return Answer(status, message, batch.schema, iter((batch,)))


def _anybody_may_write() -> None:
    """Whoever may write the files may."""
