"""What DuckDB says of a query that it cannot answer, in a line that helps."""

import pytest

from storage_core import InvalidRequestError
from storage_core.sql.engine import import_duckdb
from storage_core.sql.query_errors import one_line, translated

HINT = "decode()"
TRACEBACK = 'Traceback (most recent call last):\n  File "part_files.py", line 61, in glob\n'


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


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Query interrupted"),
        import_duckdb().Error(f"{TRACEBACK}KeyboardInterrupt: \n\nLINE 1: SELECT 1"),
        import_duckdb().Error("KeyboardInterrupt: \n\nLINE 1: SELECT 1"),
    ],
)
def test_interrupt_is_one_again(error):
    with pytest.raises(KeyboardInterrupt), translated():
        raise error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (import_duckdb().Error("Could not convert 'KeyboardInterrupt'"), InvalidRequestError),
        (import_duckdb().Error(f"{TRACEBACK}ValueError: KeyboardInterrupt"), InvalidRequestError),
        (RuntimeError("KeyboardInterruptible"), RuntimeError),
    ],
)
def test_other_errors_are_no_interrupt(error, kind):
    with pytest.raises(kind), translated():
        raise error
