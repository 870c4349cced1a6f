"""Commands over TCP and over a Unix socket: a command a line, its answer in lines.

    AUTH <token>      the first line, where the server asks for tokens
    FORMAT json       from here on an answer is one line, the JSON that `POST /command` has
    FORMAT text       from here on, and at the beginning, it is an aligned table, or nothing; then a
                      line with status and message, `OK: 3 rows`; then an empty line, which ends it

No other line of an answer is empty: one that would be is two quotes. A client that begins as one of
HTTP does is cut, so that no web page can command through a browser.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final

from connectors.output_formats.answer_forms import answer_pieces, failure_line, table_pieces
from connectors.serve.commands.bodies import Parsed, parsed
from connectors.serve.commands.front_end import FrontEnd
from connectors.serve.connection import Connection, GoneError
from connectors.serve.refusals import RefusedError
from storage_core import InvalidRequestError, ShardlogError
from storage_core.protocol import bearer
from typed_events.answer import Answer
from typed_events.refusals import message_of, status_of

_HTTP: Final = re.compile(rb"[A-Z]+ \S+ HTTP/")
_OWN: Final = re.compile(r"(AUTH|FORMAT)\s+(\S+)\s*\Z", re.IGNORECASE)
_NOT_ASKED: Final = "no token is asked for here"
_FLUSHED_AT: Final = 65_536
_EMPTY: Final = '""'
_SAYS_NOTHING: Final = "OK"
_FORMATS: Final = ("json", "text")


class LineCommands:
    """Answers connections that send a command a line. Any thread."""

    def __init__(self, front_end: FrontEnd) -> None:
        """Answer by the event store of a server."""
        self._front_end = front_end

    def serve(self, connection: Connection, is_ending: Callable[[], bool]) -> None:
        """Answer a connection until it ends, or the server does.

        Raises:
            GoneError: The client is not there any more.
        """
        room = self._front_end.body_room
        try:
            self._serve(connection, is_ending, partial(room.take, connection))
        finally:
            room.leave(connection)

    def _serve(
        self,
        connection: Connection,
        is_ending: Callable[[], bool],
        has_room: Callable[[int], bool],
    ) -> None:
        token: str | None = None
        is_json = False
        while not is_ending():
            self._front_end.body_room.leave(connection)
            try:
                line = connection.next_line(self._front_end.bounds.command_bytes, has_room)
                if line is None or _HTTP.match(line):
                    return
                if not line.strip():
                    continue
                own = _OWN.match(line.decode("utf-8", "replace").strip())
                if own is None:
                    self._command(connection, line, token, is_json=is_json)
                    continue
                if own[1].upper() == "AUTH":
                    token = own[2]
                    self._check(token)
                    is_open = self._front_end.tokens.is_open
                    answer = Answer(message=_NOT_ASKED if is_open else "the token is known")
                else:
                    is_json = _is_json(own[2])
                    answer = Answer(message=f"answers are {own[2].lower()}")
            except RefusedError as error:
                # Too long a line, and a token that is missing or wrong: whoever guesses has to
                # connect for each.
                self._send(connection, _failure(error), is_json=is_json)
                return
            except GoneError:
                raise
            except ShardlogError as error:
                answer = _failure(error)
            self._send(connection, answer, is_json=is_json)

    def _check(self, token: str | None) -> None:
        self._front_end.tokens.check(None if token is None else bearer(token), "read")

    def _command(
        self, connection: Connection, line: bytes, token: str | None, *, is_json: bool
    ) -> None:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            message = f"the command is not UTF-8, at byte {error.start}"
            raise InvalidRequestError(message) from error
        authorization = None if token is None else bearer(token)
        # A token may have been withdrawn.
        self._check(token)
        front_end = self._front_end
        commands = [Parsed(1, parsed(text, front_end.events))]
        with front_end.place_for(commands, connection):
            try:
                # Who ends its side, as `nc -N` does, wants the answer all the same.
                answer = front_end.answered(commands, authorization, lambda: connection.is_cut)
            except RefusedError as error:
                # It may read all the same.
                answer = _failure(error)
            self._send(connection, answer, is_json=is_json)

    def _send(self, connection: Connection, answer: Answer, *, is_json: bool) -> None:
        output = _Output(connection)
        with closing(self._front_end.bounded(answer)) as rows:
            answer = replace(answer, batches=rows)
            try:
                if is_json:
                    output.add_all(answer_pieces(answer, "json"))
                else:
                    output.add_all(_text_pieces(answer))
            except ShardlogError as error:
                if isinstance(error, GoneError) or (is_json and output.has_sent):
                    # What was sent is no whole answer, and the client sees that it is cut.
                    raise GoneError(str(error)) from error
                failed = _failure(error)
                if is_json:
                    output.drop()
                    output.add_all(answer_pieces(failed, "json"))
                else:
                    output.add_all(_end_of_text(failed, 0))
        output.flush()


class _Output:
    """What is sent, some 64 KiB at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: list[bytes] = []
        self._size = 0
        self.has_sent = False

    def add_all(self, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            self._waiting.append(piece)
            self._size += len(piece)
            if self._size >= _FLUSHED_AT:
                self.flush()

    def drop(self) -> None:
        self._waiting, self._size = [], 0

    def flush(self) -> None:
        if self._waiting:
            self.has_sent = True
            self._connection.send([b"".join(self._waiting)])
        self.drop()


def _text_pieces(answer: Answer) -> Iterator[bytes]:
    """Yield the lines of an answer in text."""
    lines_sent = 0
    for lines in table_pieces(answer):
        lines_sent += len(lines)
        yield "".join(f"{line or _EMPTY}\n" for line in lines).encode()
    # The first line is the head.
    yield from _end_of_text(answer, max(0, lines_sent - 1))


def _end_of_text(answer: Answer, rows: int) -> Iterator[bytes]:
    """Yield the line with status and message, and the one that ends the answer."""
    message = answer.message
    if rows and message == _SAYS_NOTHING:
        message = "1 row" if rows == 1 else f"{rows:,} rows"
    line = " ".join(failure_line(replace(answer, message=message)).splitlines())
    yield f"{line}\n\n".encode()


def _is_json(name: str) -> bool:
    if name.lower() not in _FORMATS:
        message = f"FORMAT is {' or '.join(_FORMATS)}, not {name[:40]}"
        raise InvalidRequestError(message)
    return name.lower() == "json"


def _failure(error: ShardlogError) -> Answer:
    return Answer(status_of(error), message_of(error))
