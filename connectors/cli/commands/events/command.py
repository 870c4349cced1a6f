"""`shardlog command`: commands over typed events, one after the other, or a shell.

A command that fails is the last one, and its status is the exit code. Lines of STORE alone are
stored some thousands at a time, and each that is refused is told by its line.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import typer

from connectors.cli.commands.events.answer_output import show
from connectors.cli.commands.events.commander import Commander, commander_of
from connectors.cli.parsers.events.command import CommandForm
from connectors.output_formats.answer_forms import AnswerForm
from connectors.serve.commands.split_text import CommandText, split_commands
from storage_core import InvalidRequestError

_FORMS: Final[dict[CommandForm, AnswerForm]] = {
    "table": "text",
    "json": "json",
    "jsonl": "jsonl",
    "csv": "csv",
    "arrow": "arrow",
}
_STANDARD_INPUT: Final = "-"
_TEXT_BYTES_MAX: Final = 256 * 2**20
# Lines of STORE that go together; a server takes 1 MiB.
_LINES_AT_ONCE: Final = 5_000
_CHARACTERS_AT_ONCE: Final = 2**18
_STORE: Final = "STORE "


def command(*, root: str, texts: list[str] | None, form: CommandForm) -> None:
    """Do commands over the typed events of a root, or of a server's."""
    if form == "arrow" and sys.stdout.isatty():
        message = "--format arrow is not for a terminal; send it to a file or a pipe"
        raise InvalidRequestError(message)
    with closing(commander_of(root)) as commander:
        if not texts and sys.stdin.isatty():
            # Loaded for who wants one.
            from connectors.cli.commands.events.shell import run_shell  # noqa: PLC0415

            run_shell(commander, _FORMS[form])
            return
        code = _done(commander, _commands(texts or [_STANDARD_INPUT]), _FORMS[form])
    if code:
        raise typer.Exit(code)


def _commands(texts: Sequence[str]) -> list[CommandText]:
    commands = [
        part
        for text in texts
        for part in split_commands(_standard_input() if text == _STANDARD_INPUT else text)
    ]
    if not commands:
        message = "there is no command: give COMMAND, or pipe it to standard input"
        raise InvalidRequestError(message)
    return commands


def _standard_input() -> str:
    data = sys.stdin.buffer.read(_TEXT_BYTES_MAX + 1)
    if len(data) > _TEXT_BYTES_MAX:
        message = f"standard input: commands have at most {_TEXT_BYTES_MAX} bytes"
        raise InvalidRequestError(message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"standard input: the commands are not UTF-8, at byte {error.start}"
        raise InvalidRequestError(message) from error


def _done(commander: Commander, commands: Sequence[CommandText], form: AnswerForm) -> int:
    """Do commands and print their answers; return the exit code."""
    if len(commands) > 1 and all(part.text[: len(_STORE)].upper() == _STORE for part in commands):
        return max((_do(commander, text, form) for text in _joined(commands)), default=0)
    for part in commands:
        code = _do(commander, part.text, form)
        if code:
            return code
    return 0


def _do(commander: Commander, text: str, form: AnswerForm) -> int:
    return show(commander.execute(text), form)


def _joined(commands: Sequence[CommandText]) -> Iterator[str]:
    """Yield commands in texts of many lines; their lines are counted from 1 in each of them."""
    lines: list[str] = []
    size = 0
    for part in commands:
        if lines and (len(lines) >= _LINES_AT_ONCE or size + len(part.text) > _CHARACTERS_AT_ONCE):
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(" ".join(part.text.split("\n")))
        size += len(part.text)
    yield "\n".join(lines)
