"""Text to commands.

A command ends at `;` or at the end of the text; a new line is only space. Whatever the text, the
outcome is a command or a `CommandError` of one line, and takes time in proportion to the text.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, cast

from lark import Lark
from lark.exceptions import UnexpectedInput

from typed_events.errors import CommandError
from typed_events.language.building import NESTING_MAX, Builder, LocatedQuery, Remembered
from typed_events.language.commands import Command, Remember
from typed_events.language.complaints import complaint, placed
from typed_events.language.misread import Misread
from typed_events.language.store_line import plain_batch, plain_store

COMMAND_BYTES_MAX: Final = 2**20
# Strings, so that what stands in them is passed over, and what ends a command or nests in it.
# A string without an end goes to the end: to begin one at each quote in it would be quadratic.
_MARKS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\](){};]', re.DOTALL)
_BLANK: Final = re.compile(r"[ \t\r\n]*")


def parse(text: str, bytes_max: int = COMMAND_BYTES_MAX) -> Command:
    """Return the command that a text is; a `;` may end it.

    Raises:
        CommandError: It is none, or more than one, or longer than so many bytes.
    """
    plain = plain_store(text, 0, bytes_max)
    if plain is not None and plain[1] == len(text):
        return plain[0]
    return _only(_parts(text, bytes_max, most=1))


def parse_commands(text: str, bytes_max: int = COMMAND_BYTES_MAX) -> list[Command]:
    """Return the commands of a text, with `;` between them; none of an empty one.

    Raises:
        CommandError: One of them is none, or longer than so many bytes.
    """
    return list(_parts(text, bytes_max, most=None))


def parse_with_grammar(text: str, bytes_max: int = COMMAND_BYTES_MAX) -> Command:
    """Return what `parse` does, by the grammar alone, which says what the language is."""
    return _only(_parts(text, bytes_max, most=1, is_plain_read=False))


def _only(commands: Iterator[Command]) -> Command:
    several = list(commands)
    if not several:
        message = "there is no command: write one, such as PING"
        raise CommandError(message)
    return several[0]


def _parts(
    text: str, bytes_max: int, most: int | None, *, is_plain_read: bool = True
) -> Iterator[Command]:
    place = made = 0
    while (place := _after_blank(text, place)) < len(text):
        if text[place] == ";":
            place += 1
            continue
        if made == most:
            raise CommandError(placed(text, place, "one command at a time: this is a second one"))
        made += 1
        if is_plain_read and (plain := _plain(text, place, bytes_max)) is not None:
            command, place = plain
            yield command
            continue
        try:
            end = _end_of_command(text, place, bytes_max)
            yield _parsed(text[place:end])
        except Misread as error:
            raise CommandError(placed(text, place + (error.place or 0), error.reason)) from None
        place = end


def _plain(text: str, place: int, bytes_max: int) -> tuple[Command, int] | None:
    return plain_store(text, place, bytes_max) or plain_batch(text, place, bytes_max)


def _after_blank(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return blank.end() if blank else place


def _end_of_command(text: str, start: int, bytes_max: int) -> int:
    """Return where the command ends that begins at a place."""
    end, depth = len(text), 0
    for mark in _MARKS.finditer(text, start):
        match mark[0]:
            case ";" if not depth:
                end = mark.start()
                break
            case "(" | "[" | "{":
                depth += 1
                if depth > NESTING_MAX:
                    message = f"brackets nest at most {NESTING_MAX} deep"
                    raise Misread(mark.start() - start, message)
            case ")" | "]" | "}":
                depth = max(depth - 1, 0)
    command = text[start:end]
    try:
        size = len(command) if command.isascii() else len(command.encode())
    except UnicodeEncodeError as error:
        raise Misread(error.start, "half of a surrogate pair is no character") from None
    if size > bytes_max:
        message = f"a command has at most {bytes_max:,} bytes, this one has {size:,}"
        raise Misread(None, message)
    return end


def _parsed(text: str) -> Command:
    try:
        made = cast("Command | LocatedQuery | Remembered", _parser().parse(text))
    except UnexpectedInput as error:
        raise complaint(text, error) from None
    if isinstance(made, LocatedQuery):
        return made.query
    if isinstance(made, Remembered):
        return Remember(made.query, text[made.start : made.end].strip(), made.name)
    return made


@cache
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=Builder(), maybe_placeholders=False)
