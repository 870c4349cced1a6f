"""What DuckDB says of a query that it cannot answer, in a line that helps."""

import pytest

from storage_core.sql.engine import import_duckdb
from storage_core.sql.query_errors import one_line

HINT = "decode()"


@pytest.fixture(scope="module")
def connection():
    with import_duckdb().connect() as connection:
        connection.execute("CREATE TABLE orders (payload BLOB, temperature DOUBLE, secondary INT)")
        yield connection


def message_of(connection, query):
    with pytest.raises(import_duckdb().Error) as raised:
        connection.sql(query).fetchall()
    line = one_line(str(raised.value))
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    "expression",
    [
        "payload LIKE 'a%'",
        "length(payload)",
        "lower(payload)",
        "payload SIMILAR TO 'a'",
        "regexp_matches(payload, 'a')",
        "contains(payload, 'a')",
        "split(payload, ',')",
    ],
)
def test_function_of_texts_over_bytes_is_told_with_what_makes_them_a_text(connection, expression):
    assert HINT in message_of(connection, f"SELECT {expression} FROM orders")


def test_function_of_other_types_says_nothing_of_bytes(connection):
    assert HINT not in message_of(connection, "SELECT length(temperature) FROM orders")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT temperatures FROM orders", '; did you mean "temperature"'),
        ("SELECT o.temperatures FROM orders AS o", '; did you mean "temperature"'),
        ("SELECT lengths('a')", '; did you mean "length"?'),
    ],
)
def test_typo_is_told_with_what_it_may_have_been(connection, query, words):
    assert words in message_of(connection, query)


def test_line_of_a_long_query_is_told(connection):
    query = "SELECT temperature,\n  secondary,,\nFROM orders"
    assert "in line 2" in message_of(connection, query)


def test_field_called_state_is_pointed_to_where_a_text_is_compared_with_the_log_s_own() -> None:
    message = one_line("Conversion Error: Could not convert string 'on' to UINT8")
    assert message.endswith("a field of that name is value_state")


def test_keyword_that_is_a_column_is_told_with_its_quotes(connection):
    assert message_of(connection, "SELECT primary FROM orders").endswith("it is a keyword of SQL")
