"""A text of several commands, split into each of them with its line.

A command ends at `;`, at the end of the text, and at the end of a line if the next line that is not
empty begins with the verb of a command. So a command may have several lines, and lines of STORE
need nothing between; a STORE whose payload ends with its line ends there, too, unless the next
line goes on with one of its clauses. Neither ends one within a string or within the brackets of a
BATCH. A command that is cut short spoils no other one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

VERBS: Final = (
    *("DEFINE", "STORE", "BATCH", "QUERY", "REPLAY", "REMEMBER", "SHOW", "FORGET", "SUBSCRIBE"),
    *("PLOT", "DELETE", "FLUSH", "PING", "LIST", "DESCRIBE", "EXPLAIN"),
)
# Words before a query, which may stand on a line of their own.
_BEFORE_QUERY: Final = ("REMEMBER", "EXPLAIN")
# A field may be called as a verb is: it has an operator behind it, or a colon.
_VERB: Final = re.compile(
    rf"(?:{'|'.join(VERBS)})\b(?!\s*(?:[=!<>,):]|(?:IN|LIKE|IS)\b))", re.IGNORECASE
)
_FIRST: Final = re.compile(r"\s*(\w*)")
_CLAUSE: Final = re.compile(r"(?:IDEMPOTENCY|EXPECT)\b", re.IGNORECASE)
# Blanks behind a payload that are looked over, as the end of other systems' lines.
_BLANKS: Final = 8
# A string that does not end stops at its line's end.
_MARK: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|;|\[|\]|\n\s*')
_STORE: Final = "STORE "


# Not frozen, which would cost a tenth of what it is to read a STORE.
@dataclass(slots=True)
class CommandText:
    """A command as it was written, and the line on which it begins; the first is 1."""

    line: int
    text: str


def split_commands(text: str) -> list[CommandText]:
    """Return the commands of a text, without what ends them; what is empty is left out."""
    lines = [line.strip() for line in text.split("\n")]
    if all(_is_store_alone(line) for line in lines):
        return [
            CommandText(number, line.removesuffix(";"))
            for number, line in enumerate(lines, 1)
            if line
        ]
    commands: list[CommandText] = []
    line, counted = 1, 0
    for begin, end in _pieces(text):
        piece = text[begin:end].lstrip()
        if piece:
            first = end - len(piece)
            line += text.count("\n", counted, first)
            counted = first
            commands.append(CommandText(line, piece.rstrip()))
    return commands


def _is_store_alone(line: str) -> bool:
    return not line or (line[: len(_STORE)].upper() == _STORE and ";" not in line[:-1])


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each command begins and ends."""
    begin = depth = 0
    verb: str | None = None
    for mark in _MARK.finditer(text):
        if verb is None:
            first = _FIRST.match(text, begin)
            verb = first[1].upper() if first else ""
        end, ends = mark.start(), False
        match mark[0][0]:
            case "[":
                depth += verb == "BATCH"
            case "]":
                depth = max(0, depth - 1)
            case ";":
                ends = not depth
            case "\n" if not depth:
                is_store = (
                    verb == "STORE" and text[max(0, end - _BLANKS) : end].rstrip()[-1:] == "}"
                )
                ends = is_store and not _CLAUSE.match(text, mark.end())
                if not ends and _VERB.match(text, mark.end()):
                    ends = text[begin:end].strip().upper() not in _BEFORE_QUERY
        if ends:
            yield begin, end
            begin, verb = mark.end(), None
    yield begin, len(text)
