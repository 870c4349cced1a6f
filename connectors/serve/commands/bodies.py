"""A text of commands, as a client sends it, and its answer.

One command has its own answer. Of several all but the last must be such that are answered without
rows; if the last asks for rows, and all before it went well, the answer is the last one's. Else it
says how many went well, has a row for each that did not, by its line, and the status of the first
of those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connectors.serve.commands.event_commands import EventCommands, asks, writes
from connectors.serve.commands.split_text import split_commands
from typed_events.answer import Answer, Status, counted
from typed_events.errors import CommandError
from typed_events.language.commands import Command, Store
from typed_events.refusals import refusal

_untyped: Any = pa  # the stubs take no columns of several types
_FAILURES: Final[pa.Schema] = _untyped.schema(
    {"line": pa.int64(), "status": pa.string(), "message": pa.string()}
)
# Each takes some memory and time until all are answered, however short it is.
COMMANDS_MAX: Final = 10_000
_NONE: Final = "there is no command: write one, such as PING"


# Not frozen, which would cost a tenth of what it is to read a STORE.
@dataclass(slots=True)
class Parsed:
    """A command of a text, or what is wrong with it.

    Attributes:
        line: Where it begins.
        command: The command, or the answer to one that is none.
    """

    line: int
    command: Command | Answer


def parsed_text(text: str, events: EventCommands) -> list[Parsed]:
    """Return the commands of a text.

    Raises:
        InvalidRequestError: It has none, or too many, or one that asks for rows before another, or
            what commands need is not installed.
    """
    parts = split_commands(text)
    if not parts:
        raise CommandError(_NONE)
    if len(parts) > COMMANDS_MAX:
        message = (
            f"a request has at most {COMMANDS_MAX:,} commands, this one has {len(parts):,}; none "
            "was done: send them in several requests"
        )
        raise CommandError(message)
    commands = [Parsed(part.line, parsed(part.text, events)) for part in parts]
    for entry in commands[:-1]:
        command = entry.command
        if type(command) is not Store and not isinstance(command, Answer) and asks(command):
            message = (
                f"line {entry.line}: of several commands only the last may ask for rows; "
                "send the others by themselves"
            )
            raise CommandError(message)
    return commands


def answered(
    commands: Sequence[Parsed],
    events: EventCommands,
    check_write: Callable[[], None],
    poll: Callable[[], None] | None = None,
) -> Answer:
    """Do commands and return the answer to all.

    Args:
        commands: The commands.
        events: Who does them.
        check_write: Raises where the client may not write.
        poll: Called some times a second while rows are searched for; what it raises ends that.
    """
    done = [entry.command for entry in commands if not isinstance(entry.command, Answer)]
    if any(map(writes, done)):
        check_write()
    if len(commands) == 1:
        (only,) = commands
        if isinstance(only.command, Answer):
            return only.command
        return events.execute(only.command, poll)
    last = commands[-1].command
    question = None if isinstance(last, Answer) or not asks(last) else last
    before = commands if question is None else commands[:-1]
    did = events.execute_all(done if question is None else done[:-1])
    answers = iter(did)
    pairs = [
        (entry.line, entry.command if isinstance(entry.command, Answer) else next(answers))
        for entry in before
    ]
    failed = [(line, answer) for line, answer in pairs if answer.status is not Status.OK]
    if question is not None and not failed:
        return events.execute(question, poll)
    return _counted(len(commands), failed, is_asked=question is not None)


def parsed(text: str, events: EventCommands) -> Command | Answer:
    """Return the command that a text is, or what one that is none is answered."""
    try:
        return events.parse(text)
    except CommandError as error:
        return refusal(error)


def _counted(count: int, failed: Sequence[tuple[int, Answer]], *, is_asked: bool) -> Answer:
    if not failed:
        return Answer(message=f"{counted(count, 'command')} done")
    line, first = failed[0]
    message = f"{count - len(failed) - is_asked:,} of {count:,} commands done; "
    message += f"line {line}: {first.message}"
    rows = {
        "line": [line for line, _ in failed],
        "status": [str(answer.status) for _, answer in failed],
        "message": [answer.message for _, answer in failed],
    }
    batch = _untyped.RecordBatch.from_pydict(rows, schema=_FAILURES)
    return Answer(first.status, message, _FAILURES, iter((batch,)))
