"""Every form of the language becomes the command that it says."""

from itertools import permutations

import pytest

from tests.unit.typed_events.language.forms import FORMS, ORDERS
from typed_events.language.commands import Command, Ping, Query, Remember
from typed_events.language.parse import parse, parse_commands


@pytest.mark.parametrize(("text", "command"), FORMS.items())
def test_form_is_the_command_that_it_says(text: str, command: Command) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(("text", "command"), FORMS.items())
def test_new_lines_and_tabs_are_space(text: str, command: Command) -> None:
    if not isinstance(command, Remember) and '"' not in text:
        assert parse(f"\r\n\t{text}".replace(" ", "\n\t ")) == command


def test_clauses_stand_in_any_order() -> None:
    clauses = ("FOR a", "WHERE paid", "LIMIT 3", "RETURN [x]", "SINCE 5")
    read = {repr(parse(f"QUERY orders {' '.join(order)}")) for order in permutations(clauses)}
    assert len(read) == 1


def test_commands_end_at_a_semicolon_or_at_the_end() -> None:
    assert parse_commands(";; PING;\nQUERY orders ;PING\n") == [Ping(), ORDERS, Ping()]
    assert parse_commands(" \n ") == parse_commands("") == []


def test_all_forms_stand_in_one_text() -> None:
    assert parse_commands(";\n".join(FORMS)) == [*FORMS.values()]


def test_semicolon_in_a_string_ends_nothing() -> None:
    assert parse_commands('QUERY orders FOR "a;b"; PING') == [Query("orders", "a;b"), Ping()]


def test_name_may_be_called_like_a_keyword_where_none_may_follow() -> None:
    query = parse("QUERY query FOR for RETURN [return, count] WHERE where = where ORDER BY desc")
    assert isinstance(query, Query)
    assert (query.event_type, query.context) == ("query", "for")
    assert [field.name for field in query.returned or ()] == ["return", "count"]


def test_keyword_wins_where_it_may_follow_and_quotes_make_it_a_name() -> None:
    query = parse('QUERY orders COUNT "by" BY by')
    assert isinstance(query, Query)
    assert [figure.field for figure in query.aggregates] == [*query.by]
    assert parse("QUERY orders COUNT BY by") == parse('QUERY orders COUNT BY "by"')
