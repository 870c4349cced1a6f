"""Lines about commands that cannot be read: where, what was met, what was expected."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final, cast

from lark.exceptions import UnexpectedInput, UnexpectedToken

from typed_events.language.misread import Misread

# What a terminal is called; a keyword is called what it is.
_CALLED: Final = {
    "WORD": "a word or a string in double quotes",
    "TYPE": 'a name such as "orders"',
    "FIELD": "the name of a field",
    "NAME": "the name of a field",
    "PLACE": "a position such as 2:41",
    "TEXT": "a string in double quotes",
    "NUMBER": "a number",
    "WHOLE": "a whole number",
    "DURATION": "a duration such as 30m",
    "OPERATOR": "= != < <= > >=",
    "ALL": "*",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": "a comma",
    "COLON": "a colon",
    "SEMICOLON": ";",
    "$END": "the end of the command",
}
# Commands that everybody needs, before the others.
_FIRST_ONES: Final = ("DEFINE", "STORE", "QUERY", "REPLAY")
_JSON: Final = frozenset({"JSON_TRUE", "JSON_FALSE", "JSON_NULL", "BARE_JSON"})
_NAMES: Final = frozenset({"WORD", "TYPE", "FIELD", "NAME", "PLACE", "DURATION"})
# All clauses of QUERY: one that is left out here is the one that was looked for.
_LISTED_MAX: Final = 24
# What other languages call it.
_ELSEWHERE: Final = {
    "SELECT": "QUERY",
    "FIND": "QUERY",
    "GET": "QUERY",
    "INSERT": "STORE",
    "PUT": "STORE",
    "CREATE": "DEFINE",
    "DESC": "DESCRIBE",
    "SUM": "TOTAL",
    "MEAN": "AVG",
    "AVERAGE": "AVG",
    "GROUP": "BY",
}
_STACK_MAX: Final = 10_000
_SHOWN_MAX: Final = 40
_LIKENESS: Final = 0.75
_REASON_MAX: Final = 400
_MET: Final = re.compile(r"[\w@/][\w\-.:@/+]*|[<>=!]+|.", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')


def complaint(text: str, error: UnexpectedInput) -> Misread:
    """Return what is wrong with a text that the parser cannot read."""
    place = _place(text, error)
    met = _MET.match(text, place)
    expected = _expected(error)
    if met is None:
        return Misread(
            len(text.rstrip()), f"the command ends where {_listed(expected)} is expected"
        )
    word = met[0]
    if special := _special(text, place, word):
        return Misread(place, special)
    if meant := _meant(word, expected):
        return Misread(place, f"{_excerpt(word)}: did you mean {meant}?")
    keywords = _keywords(expected)
    if keywords.issuperset(_FIRST_ONES):
        names = [*_FIRST_ONES, *sorted(keywords - {*_FIRST_ONES})]
        return Misread(place, f"{_excerpt(word)} is no command; there are {', '.join(names)}")
    return Misread(place, f"expected {_listed(expected)}, not {_excerpt(word)}")


def placed(text: str, place: int, reason: str) -> str:
    """Return a line about a place in a text."""
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    where = f"column {column}" if "\n" not in text else f"line {line}, column {column}"
    return f"{where}: {in_one_line(reason)}"


def in_one_line(reason: str) -> str:
    """Return a reason without what would break its line, and not too long."""
    if not reason.isprintable():
        reason = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in reason)
    return reason if len(reason) <= _REASON_MAX else f"{reason[:_REASON_MAX]}…"


def _place(text: str, error: UnexpectedInput) -> int:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text)
    return cast("int", error.pos_in_stream)


def _expected(error: UnexpectedInput) -> Collection[str]:
    parser = getattr(error, "interactive_parser", None)
    if parser is not None and len(parser.parser_state.value_stack) <= _STACK_MAX:
        return frozenset(parser.accepts())
    return frozenset(getattr(error, "accepts", None) or getattr(error, "allowed", None) or ())


def _special(text: str, place: int, word: str) -> str:
    """Return the line about what people often write, if it is that."""
    if text.startswith('"', place):
        string = _STRING.match(text, place)
        end = string.end() if string else place
        if end >= len(text):
            return "this string does not end"
        if text[end] == '"':
            return ""
        if text[end] == "\\":
            return (
                r"after a \ in a string stands one of " + r'" \ / b f n r t, or u and 4 hex digits'
            )
        return r"a string has no control characters: write \n for a new line, \t for a tab"
    is_doubled = word.startswith(("=", ">")) and text[place - 1 : place] in {"=", "<"}
    if is_doubled:
        return "write = for equal, != for not equal"
    return "strings stand in double quotes" if word == "'" else ""


def _meant(word: str, expected: Collection[str]) -> str | None:
    """Return the keyword that a word is nearly; a looser likeness would find one in many names."""
    keywords = _keywords(expected)
    if (elsewhere := _ELSEWHERE.get(word.upper())) in keywords:
        return elsewhere
    like = get_close_matches(word[:_SHOWN_MAX].upper(), sorted(keywords), 1, _LIKENESS)
    return like[0] if like and like[0] != word.upper() else None


def _keywords(terminals: Collection[str]) -> set[str]:
    return set(filter(None, map(_keyword, terminals)))


def _keyword(terminal: str) -> str | None:
    if terminal in _CALLED or terminal in _JSON:
        return None
    return terminal.removeprefix("_")


def _listed(expected: Collection[str]) -> str:
    if not expected:
        return "something else"
    rest = set(expected) - _JSON
    if rest != expected:
        return "a value: a string in double quotes, a number, true, false or null"
    if rest == {"TEXT", "LSQB"}:
        return 'a field type such as "int", or a list of the values of an enum'
    if rest & _NAMES:
        rest -= {"TEXT"}
    keywords = sorted(_keywords(rest))
    others = sorted(_CALLED[name] for name in rest if name in _CALLED and name != "$END")
    names = [*others, *keywords]
    if len(names) > _LISTED_MAX:
        names = [*names[:_LISTED_MAX], "…"]
    if "$END" in rest:
        names.append(_CALLED["$END"])
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _excerpt(word: str) -> str:
    if not word.isprintable():
        return ascii(word)[:_SHOWN_MAX]
    return f'"{word[:_SHOWN_MAX]}…"' if len(word) > _SHOWN_MAX else f'"{word}"'
