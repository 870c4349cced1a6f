"""STORE lines are read alike with the parser and without it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typed_events.errors import CommandError
from typed_events.language.commands import Batch, Command, Store
from typed_events.language.parse import parse, parse_commands, parse_with_grammar

names = st.sampled_from(
    [
        "orders",
        "a" * 249,
        "a" * 250,
        ".a",
        "..",
        "for",
        "AS",
        "payload",
        "7a",
        "o.r-d",
        "é",
        "a:b",
        '"a b"',
        "",
    ]
)
contexts = st.one_of(
    names, st.sampled_from(["user:7/a@b+c", '"a\\"b"', '""', "a" * 1025, f'"{"é" * 513}"', "@x"])
)
plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)
# As JSON has them, and as it has not.
values = st.one_of(
    plain.map(json.dumps),
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [
            *("NaN", "-Infinity", "1e999", "01", "1.", "-", "+1", ".5", "1E+5", "-0", "True"),
            *("[]", '{"a": 1}', '"\\ud800"', '"\\ud83d\\ude00"', '"\\q"', '"\t"', "'a'", "1 2"),
            *("nul", ""),
        ]
    ),
)
keys = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""', "a", '"\\udc00"', '"x y"'])
members = st.tuples(keys, st.sampled_from([":", " : ", ""]), values).map("".join)
payloads = st.lists(members, max_size=3).map(lambda found: "{" + ", ".join(found) + "}")
clauses = st.sampled_from(
    [
        *("", "EXPECT 3", "expect none", "EXPECT ANY", "EXPECT -1", "EXPECT 0007", "EXPECT 3x"),
        *("IDEMPOTENCY k", 'IDEMPOTENCY "a b"', "IDEMPOTENCY", "EXPECT 9" + "9" * 18, "LIMIT 3"),
        *("IDEMPOTENCY expect EXPECT 3", "EXPECT 3 IDEMPOTENCY k", "IDEMPOTENCY k EXPECT 1 EXPECT"),
    ]
)
ROWS = (
    *("ROW 7", 'row "a b"', 'ROW ""', "ROW payload", "Row ROW", "ROW", 'ROW "\\u0061"', 'ROW"a"'),
    *("ROW " + "a" * 1025, "ROW a ROW b", "ROW é", "ROW a:b/c"),
)
spaces = st.sampled_from([" ", "  ", "\n", "\t ", "", "\xa0", "\f"])
ends = st.sampled_from(["", ";", " ; ", "]", "; ;", ";;", "; PING"])


@st.composite
def store_lines(draw: st.DrawFn) -> str:
    """Draw a STORE line, which most often is one."""
    space = draw(spaces) if draw(st.integers(0, 9)) == 0 else " "
    version = draw(st.sampled_from(["", "", "AS 1", "as 65535", "AS 65536", "AS 0", "AS x"]))
    row = draw(st.sampled_from(["", "", *ROWS]))
    words = ["STORE", draw(names), *filter(None, [version]), "FOR", draw(contexts)]
    words += [*filter(None, [row]), "PAYLOAD"]
    line = space.join([*words, draw(payloads), draw(clauses)]) + draw(ends)
    if draw(st.integers(0, 3)):
        return line
    place = draw(st.integers(0, len(line)))
    return (
        line[:place]
        + draw(st.sampled_from(["", "x", '"', "{", " ", "\\", "é"]))
        + line[place + draw(st.integers(0, 2)) :]
    )


def outcome(read: Any, text: str) -> Command | str:
    """Return the command, or what is said of it."""
    try:
        return read(text)  # type: ignore[no-any-return]  # either of the two ways
    except CommandError as error:
        return str(error)


@given(store_lines())
def test_store_line_is_read_alike_with_the_parser_and_without(line: str) -> None:
    assert repr(outcome(parse, line)) == repr(outcome(parse_with_grammar, line))


@given(st.lists(store_lines(), min_size=1, max_size=3), st.sampled_from([";", "", ";;", " ; "]))
def test_batch_is_read_alike_with_the_parser_and_without(lines: list[str], end: str) -> None:
    text = f"BATCH [{';'.join(lines)}{end}]"
    assert repr(outcome(parse, text)) == repr(outcome(parse_with_grammar, text))


@pytest.mark.parametrize(
    "line",
    [
        'STORE orders FOR alice PAYLOAD {"amount": 5, "status": "open", "paid": true, "x": null}',
        'STORE orders AS 2 FOR "a b" PAYLOAD {"a": "é\\n\\u00e9"} IDEMPOTENCY "k 1" EXPECT 3',
        "store orders for user:7/a@b payload {} expect none;",
        'STORE orders FOR a PAYLOAD {"a": 1}\n  EXPECT ANY',
    ],
)
def test_plain_line_needs_no_parser(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typed_events.language.parse._parser", None)
    assert isinstance(parse(line), Store)
    (batch,) = parse_commands(f"BATCH [ {line.rstrip(';')}; {line.rstrip(';')} ]")
    assert isinstance(batch, Batch)
    assert batch.stores == (parse(line), parse(line))
