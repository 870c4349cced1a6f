"""What cannot be read is refused in one line: where it is, what was met, what to write."""

import pytest

from typed_events.errors import CommandError
from typed_events.language.parse import parse, parse_commands

LINES = {
    "": "there is no command: write one, such as PING",
    "PING; PING": "column 7: one command at a time: this is a second one",
    "QUER orders": 'column 1: "QUER": did you mean QUERY?',
    "QUERY orders WERE a = 1": 'column 14: "WERE": did you mean WHERE?',
    "QUERY orders\n  WERE a": 'line 2, column 3: "WERE": did you mean WHERE?',
    "SELECT * FROM orders": 'column 1: "SELECT": did you mean QUERY?',
    "QUERY orders SUM amount": 'column 14: "SUM": did you mean TOTAL?',
    "QUERY orders GROUP BY status": 'column 14: "GROUP": did you mean BY?',
    "-- all": (
        'column 1: "-" is no command; there are DEFINE, STORE, QUERY, REPLAY, BATCH, DELETE, '
        "DESCRIBE, EXPLAIN, FLUSH, FORGET, LIST, PING, PLOT, REMEMBER, SHOW, SUBSCRIBE"
    ),
    "QUERY": 'column 6: the command ends where a name such as "orders" is expected',
    "QUERY orders amount": (
        "column 14: expected AFTER, AVG, BY, COUNT, FOLLOWED, FOR, LIMIT, MAX, MIN, OFFSET, ORDER, "
        "PER, PRECEDED, RETURN, SINCE, TOTAL, UNTIL, USING, WHERE or the end of the command, not "
        '"amount"'
    ),
    "PING 5": 'column 6: expected the end of the command, not "5"',
    "QUERY orders WHERE a == 1": "column 23: write = for equal, != for not equal",
    "QUERY orders WHERE a <> 1": "column 23: write = for equal, != for not equal",
    "QUERY orders WHERE a = 'b'": "column 24: strings stand in double quotes",
    "QUERY orders WHERE a = null": (
        "column 24: no value equals null: write IS NULL, or IS NOT NULL"
    ),
    'QUERY orders WHERE a = "b': "column 24: this string does not end",
    'QUERY orders WHERE a = "b\nc"': (
        r"line 1, column 24: a string has no control characters: write \n for a new line, "
        r"\t for a tab"
    ),
    r'QUERY orders WHERE a = "\q"': (
        r'column 24: after a \ in a string stands one of " \ / b f n r t, or u and 4 hex digits'
    ),
    r'QUERY orders WHERE a = "\ud800"': ("column 24: half of a surrogate pair is no character"),
    "QUERY orders LIMIT 3 WHERE a LIMIT 4": "column 30: LIMIT is there twice",
    "QUERY orders OFFSET 4": "column 14: OFFSET needs LIMIT",
    "QUERY orders BY a": "column 14: BY needs a figure, such as COUNT",
    "QUERY orders PER day": "column 14: PER needs a figure, such as COUNT",
    "QUERY orders COUNT MIN a": (
        "column 20: MIN needs a comma before it, after the figures that are there already"
    ),
    "QUERY orders LIMIT -1": 'column 20: expected a whole number, not "-"',
    "QUERY orders LIMIT 9223372036854775808": (
        "column 20: 9223372036854775808 is not from 0 to 9223372036854775807"
    ),
    "QUERY orders AFTER 12": ('column 20: "12" is no position: write shard:address, such as 2:41'),
    "QUERY orders USING a.b COUNT": "column 14: USING takes a field without its type: b",
    "QUERY orders WHERE a.": 'column 20: "a." is no field: write type.field',
    'QUERY "../x"': (
        'column 7: "../x" cannot be the name of a type: it has letters from A to Z, digits, _ - '
        "and ., and at most 249 of them"
    ),
    'STORE ".." FOR a PAYLOAD {}': (
        'column 7: ".." cannot be the name of a type: it has letters from A to Z, digits, _ - '
        "and ., and at most 249 of them"
    ),
    'REMEMBER QUERY orders AS "../x"': (
        'column 26: "../x" cannot be a name to remember by: it has letters from A to Z, digits, '
        "_ - and ., begins with none of - and ., and is at most 200 long"
    ),
    "SUBSCRIBE orders FROM yesterday": (
        'column 23: "yesterday" is no place to begin at: write START, NOW, a position such as '
        "2:41, or a checkpoint such as orders/0:12"
    ),
    "REPLAY orders": "column 1: REPLAY needs FOR and a context",
    "DEFINE orders FIELDS {a: int}": (
        'column 26: expected a field type such as "int", or a list of the values of an enum, '
        'not "int"'
    ),
    'DEFINE orders FIELDS {a: "int", a: "int"}': 'column 33: field "a" is there twice',
    'DEFINE orders FIELDS {a: "int"} AS STATE TTL 5y': (
        'column 46: "5y" is no TTL: write one from 1s to 3650d, such as 30m, 12h, 7d'
    ),
    'DEFINE orders AS 0 FIELDS {a: "int"}': "column 18: 0 is not from 1 to 65535",
    'STORE orders FOR "" PAYLOAD {}': "column 18: a context has 1 to 1,024 bytes, not 0",
    f"STORE orders FOR {'a' * 1025} PAYLOAD {{}}": (
        "column 18: a context has 1 to 1,024 bytes, not 1,025"
    ),
    'STORE orders FOR a PAYLOAD {} IDEMPOTENCY ""': (
        "column 43: an idempotency key has 1 to 1,024 bytes, not 0"
    ),
    "STORE orders FOR a PAYLOAD {} EXPECT 1 EXPECT 2": "column 40: EXPECT is there twice",
}
# Payloads of a STORE, and what is said behind the column.
PAYLOADS = {
    '{"a": NaN}': 'field "a": NaN is no value in JSON',
    '{"a": -Infinity}': 'field "a": -Infinity is no value in JSON',
    '{"a": True}': (
        'field "a": True is no value in JSON: text stands in double quotes; did you mean true?'
    ),
    '{"a": 1e999}': 'field "a": 1e999 is beyond the largest number',
    f'{{"a": {"9" * 5000}}}': 'field "a": a number of 5,000 digits is too long',
    '{"a": 1, "b": 2, "a": 1}': 'field "a" is there twice',
    '{"a": 1, "\\u0061": 1}': 'field "a" is there twice',
    '{"b": [1, [2, {"x": {}}]]}': (
        'field "b": an object or a list is no value of a field: payloads are flat'
    ),
    '{"a": {}}': 'field "a": an object or a list is no value of a field: payloads are flat',
    '{"a": "\\ud800"}': 'field "a": half of a surrogate pair is no character',
    '{"a\\n": NaN}': 'field "a\\n": NaN is no value in JSON',
    '{"a": 01}': "expected a value: a string in double quotes, a number, true, false or null,",
    '{"a": 1,}': "expected a string in double quotes, not",
}


@pytest.mark.parametrize(("text", "line"), LINES.items())
def test_refusal_says_where_and_what_to_write(text: str, line: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse(text)
    assert str(refusal.value) == line


@pytest.mark.parametrize(("payload", "line"), PAYLOADS.items())
def test_refused_payload_names_its_field(payload: str, line: str) -> None:
    with pytest.raises(CommandError) as refusal:
        parse(f"STORE orders FOR a PAYLOAD {payload}")
    assert str(refusal.value).partition(": ")[2].startswith(line)


def test_column_counts_from_the_begin_of_its_line_over_all_commands() -> None:
    with pytest.raises(CommandError, match=r"^line 2, column 7: .PNG.: did you mean PING"):
        parse_commands("PING;\nPING; PNG")


def test_long_and_unprintable_texts_are_cut_and_escaped() -> None:
    with pytest.raises(CommandError) as refusal:
        parse(f'QUERY orders WHERE "{"x" * 5000}" \x07')
    assert len(str(refusal.value)) < 500
    assert str(refusal.value).isprintable()
