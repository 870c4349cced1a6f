"""Long and deep commands: refused in one line where they pass a bound, read where they do not."""

import pytest

from typed_events.errors import CommandError
from typed_events.language.building import NESTING_MAX
from typed_events.language.commands import Query
from typed_events.language.expressions import And, InList
from typed_events.language.parse import COMMAND_BYTES_MAX, parse, parse_commands

MANY = 20_000
# Each repeats what would cost a reader that is quadratic, or recursive, its time or its stack.
LONG = {
    "brackets": "QUERY a WHERE " + "(" * MANY,
    "closed brackets": "QUERY a WHERE " + "(" * MANY + "x" + ")" * MANY,
    "negations": "QUERY a WHERE " + "NOT " * MANY + "x",
    "negations without an end": "QUERY a WHERE " + "NOT " * MANY,
    "lists": 'STORE a FOR b PAYLOAD {"x": ' + "[" * MANY,
    "objects": 'STORE a FOR b PAYLOAD {"x": ' + '{"x": ' * MANY,
    "escapes": 'QUERY a WHERE x = "' + r"\n" * MANY,
    "backslashes": 'QUERY a WHERE x = "' + "\\" * MANY,
    "escaped quotes": 'QUERY a WHERE x = "' + r"\"" * MANY + "\\",
    "quotes": '"' * MANY,
    "digits": "QUERY a LIMIT " + "1" * MANY,
    "a number": "QUERY a WHERE x = " + "1" * MANY,
    "an exponent": "QUERY a WHERE x = 1e" + "9" * MANY,
    "a name": "DEFINE " + "a" * MANY + " FIELDS",
    "duration": 'DEFINE a FIELDS {x: "int"} AS STATE TTL ' + "9" * MANY + "m",
    "positions": "SUBSCRIBE * FROM " + "1:1," * MANY,
    "new lines": "\n" * MANY + "QUERY a WERE",
    "batches": "BATCH [" * MANY,
    "clauses": "QUERY a " + "LIMIT 1 " * MANY,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_and_deep_command_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse(text)
    assert str(refusal.value).isprintable()


def test_long_flat_command_is_read() -> None:
    query = parse(f"QUERY a WHERE x IN ({','.join('1' * MANY)})")
    assert isinstance(query, Query)
    assert isinstance(query.where, InList)
    assert len(query.where.values) == MANY


def test_conditions_side_by_side_do_not_nest() -> None:
    query = parse("QUERY a WHERE " + " AND ".join(["(x OR NOT y)"] * 1000))
    assert isinstance(query, Query)
    assert isinstance(query.where, And)
    assert len(query.where.terms) == 1000


@pytest.mark.parametrize("nesting", ["({})", "NOT {}", "NOT ({})"])
def test_conditions_nest_to_a_bound(nesting: str) -> None:
    levels = NESTING_MAX // (2 if "(" in nesting and "NOT" in nesting else 1)
    condition = "x"
    for _ in range(levels):
        condition = nesting.format(condition)
    parse(f"QUERY a WHERE {condition}")
    with pytest.raises(CommandError, match=f"nest at most {NESTING_MAX} deep"):
        parse(f"QUERY a WHERE {nesting.format(condition)}")


@pytest.mark.parametrize("command", ["QUERY a FOR {}", "STORE a FOR b PAYLOAD {{}} IDEMPOTENCY {}"])
def test_command_of_too_many_bytes_is_refused(command: str) -> None:
    text = command.format("é" * 100)
    size = len(text.encode())
    assert parse(text, bytes_max=size) == parse_commands(f"{text};{text}", bytes_max=size)[1]
    assert parse(f" {text} ;", bytes_max=size + 1) == parse(text)
    with pytest.raises(CommandError, match=f"at most {size - 1} bytes, this one has {size}"):
        parse(text, bytes_max=size - 1)


def test_command_has_a_mebibyte_unless_told() -> None:
    with pytest.raises(CommandError, match="1,048,576 bytes"):
        parse("PING" + " " * COMMAND_BYTES_MAX)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(CommandError, match="half of a surrogate pair"):
        parse("QUERY a FOR \ud800")
    with pytest.raises(CommandError, match="half of a surrogate pair"):
        parse('STORE a FOR b PAYLOAD {"x": "\udfff"}')
