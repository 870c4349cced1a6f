"""The shell of `shardlog command`: commands at a prompt, with history and completion.

A command has as many lines as it needs and ends at `;`. Ctrl-C gives up what was typed, or ends the
command that runs; Ctrl-D ends the shell. History is kept in `$XDG_STATE_HOME/shardlog/history`, for
its user alone. Tab completes keywords, types, and the fields of the types that the command names.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.events.answer_output import show
from connectors.cli.commands.events.commander import Commander
from connectors.output_formats.answer_forms import AnswerForm
from connectors.serve.commands.split_text import split_commands
from storage_core import ShardlogError
from typed_events.answer import Answer
from typed_events.refusals import refusal

_PROMPT: Final = "shardlog> "
_MORE: Final = "     ...> "
_HISTORY_LINES: Final = 2000
_ENDS: Final = ("exit", "quit")
_HELP: Final = (
    "A command ends at ; and may have many lines. Ctrl-C gives it up, Ctrl-D ends the shell, Tab "
    "completes.\nLIST TYPES; DESCRIBE type; DEFINE, STORE, QUERY, REPLAY: docs/EVENTS.md"
)
KEYWORDS: Final = (
    *("AFTER", "AND", "AS", "AVG", "BATCH", "BY", "COUNT", "DEFINE", "DELETE", "DESC", "DESCRIBE"),
    *("EXPECT", "EXPLAIN", "FIELDS", "FLUSH", "FOLLOWED", "FOR", "FORGET", "FROM", "IDEMPOTENCY"),
    *("IN", "IS", "LIKE", "LIMIT", "LINKED", "LIST", "MAX", "MIN", "NOT", "NULL", "OFFSET", "OR"),
    *("ORDER", "PAYLOAD", "PER", "PING", "PLOT", "PRECEDED", "QUERY", "REMEMBER", "REPLAY"),
    *("RETURN", "ROW", "SHOW", "SINCE", "STATE", "STORE", "SUBSCRIBE", "TOTAL", "TTL", "TYPES"),
    *("UNIQUE", "UNTIL", "USING", "WHERE"),
)
CORE_FIELDS: Final = ("context_id", "event_type", "id", "timestamp", "version")
_TYPE_NEXT: Final = re.compile(
    r"(?:QUERY|STORE|REPLAY|DESCRIBE|SUBSCRIBE|DELETE|(?:FOLLOWED|PRECEDED)\s+BY)\s+\w*\Z",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"\w+")
_LAST: Final = re.compile(r"\w*\Z")


class Completion:
    """What may stand next in a command."""

    def __init__(self, execute: Callable[[str], Answer]) -> None:
        """Know nothing of the types yet."""
        self._execute = execute
        self._types: list[str] | None = None
        self._fields: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Ask for types anew: a command may have made one."""
        self._types = None
        self._fields.clear()

    def choices(self, before: str) -> list[str]:
        """Return what completes a text, in order."""
        last = _LAST.search(before)
        start = last[0] if last else ""
        if _TYPE_NEXT.search(before):
            names = self.types()
        else:
            named = {*_WORDS.findall(before)} & {*self.types()}
            fields = [field for name in sorted(named) for field in self.fields(name)]
            is_upper = start.isupper() or not start
            keywords = [word if is_upper else word.lower() for word in KEYWORDS]
            names = [*dict.fromkeys((*fields, *(CORE_FIELDS if named else ()))), *keywords]
        return [name for name in names if name.lower().startswith(start.lower())]

    def types(self) -> list[str]:
        """Return the names of the types."""
        if self._types is None:
            self._types = self._column("LIST TYPES", "event_type")
        return self._types

    def fields(self, name: str) -> list[str]:
        """Return the fields of a type."""
        if name not in self._fields:
            self._fields[name] = self._column(f"DESCRIBE {name}", "field")
        return self._fields[name]

    def _column(self, command: str, column: str) -> list[str]:
        try:
            answer = self._execute(command)
            rows = [row for batch in answer.batches for row in batch.to_pylist()]
        except ShardlogError:
            # A shell without completion is one all the same.
            return []
        return list(dict.fromkeys(str(row[column]) for row in rows if column in row))


class Shell:
    """A command after the other, from lines that somebody types."""

    def __init__(
        self, commander: Commander, form: AnswerForm, read_line: Callable[[str], str]
    ) -> None:
        """Read lines by a function of a prompt, which raises EOFError at the end."""
        self._commander = commander
        self._form: AnswerForm = form
        self._read_line = read_line
        self._pending: list[str] = []
        self.completion = Completion(commander.execute)

    def run(self) -> None:
        """Do commands until there are no more."""
        while True:
            try:
                line = self._read_line(_MORE if self._pending else _PROMPT)
            except KeyboardInterrupt:
                self._pending = []
                typer.echo()
                continue
            except EOFError:
                typer.echo()
                return
            word = line.strip().removesuffix(";").strip().lower()
            if not self._pending and word in _ENDS:
                return
            if not self._pending and word in ("help", "?"):
                typer.echo(_HELP)
                continue
            if line.strip() or self._pending:
                self._pending.append(line)
            if line.rstrip().endswith(";"):
                text, self._pending = "\n".join(self._pending), []
                self._do(text)

    def complete(self, before: str) -> list[str]:
        """Return what completes a line that has begun."""
        return self.completion.choices("\n".join((*self._pending, before)))

    def _do(self, text: str) -> None:
        for part in split_commands(text):
            try:
                if show(self._answer(part.text), self._form):
                    return
            except KeyboardInterrupt:
                typer.echo("interrupted; what it wrote may be stored all the same", err=True)
                return
            finally:
                if part.text[:6].upper() == "DEFINE":
                    self.completion.forget()

    def _answer(self, text: str) -> Answer:
        try:
            return self._commander.execute(text)
        except ShardlogError as error:
            return refusal(error)


def run_shell(commander: Commander, form: AnswerForm) -> None:
    """Run a shell on this terminal."""
    import readline  # noqa: PLC0415 - it changes the terminal of who imports it

    shell = Shell(commander, form, input)
    history = history_path()
    with suppress(OSError):
        history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        history.touch(mode=0o600)
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    choices: list[str] = []

    def complete(_text: str, state: int) -> str | None:
        if not state:
            choices[:] = shell.complete(readline.get_line_buffer()[: readline.get_endidx()])
        return choices[state] + " " if state < len(choices) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n\"'(){}[],;:=<>!")
    readline.parse_and_bind("tab: complete")
    try:
        shell.run()
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            readline.write_history_file(history)


def history_path() -> Path:
    """Return where the shell keeps what was typed."""
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local/state"
    return home / "shardlog/history"
