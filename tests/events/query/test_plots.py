"""Goal: PLOT has the rows of its query, and says how they are drawn."""

import json

import pytest

from tests.events.front_ends.doors import commanding, posted
from tests.events.query.test_commands import COMMANDS
from tests.events.query.test_queries_at_random import rows_in
from typed_events import EventStore
from typed_events.answer import PlotAxes, Status

PLOTS = {
    "COUNT OF order": ("QUERY order COUNT", PlotAxes(None, ("count",), None, "bar")),
    "TOTAL amount, COUNT OF order BY status WHERE amount > 5": (
        "QUERY order TOTAL amount, COUNT BY status WHERE amount > 5",
        PlotAxes("status", ("total_amount", "count"), None, "bar"),
    ),
    "MAX amount OF order BY status, context_id": (
        "QUERY order MAX amount BY status, context_id",
        PlotAxes("status", ("max_amount",), "context_id", "bar"),
    ),
    "COUNT UNIQUE context_id OF order OVER day": (
        "QUERY order COUNT UNIQUE context_id PER day",
        PlotAxes("bucket", ("count_unique_context_id",), None, "line"),
    ),
    "AVG amount OF order FOR c-1 BY status, status OVER hour USING at SINCE 2020-01-01": (
        "QUERY order FOR c-1 AVG amount BY status PER hour USING at SINCE 2020-01-01",
        PlotAxes("bucket", ("avg_amount",), "status", "line"),
    ),
    "COUNT OF payment BY amount WHERE amount > 100": (
        "QUERY payment COUNT BY amount WHERE amount > 100",
        PlotAxes("amount", ("count",), None, "bar"),
    ),
}


@pytest.fixture
def store(root):
    """A store with orders and payments."""
    with EventStore.open(root) as store:
        for command in COMMANDS:
            assert store.execute(command).status == Status.OK
        yield store


def test_plot_has_the_rows_of_its_query_and_says_how_they_are_drawn(store) -> None:
    for plot, (query, axes) in PLOTS.items():
        drawn, plain = store.execute(f"PLOT {plot}"), store.execute(query)
        assert (drawn.status, drawn.message, drawn.plot) == (Status.OK, plain.message, axes), plot
        assert (drawn.schema, rows_in(drawn)) == (plain.schema, rows_in(plain)), plot
        assert plain.plot is None


@pytest.mark.parametrize(
    ("plot", "line"),
    [
        ("COUNT OF order BY status, context_id OVER day", "one field: write one after BY"),
        ("COUNT OF order BY status, amount, context_id", "write one or two after BY"),
        ("TOTAL status OF order", "is no number"),
        ("COUNT OF order BY nothing", "nothing"),
    ],
)
def test_plot_that_cannot_be_drawn_is_refused(store, plot, line) -> None:
    answer = store.execute(f"PLOT {plot}")
    assert (answer.status, answer.plot) == (Status.BAD_REQUEST, None)
    assert line in answer.message


def test_explain_says_how_a_plot_is_read(store) -> None:
    steps = {
        row["step"]: row["detail"] for row in rows_in(store.execute("EXPLAIN PLOT COUNT OF order"))
    }
    assert steps["hot rows of order"] == "2 read"


def test_answer_in_json_says_how_it_is_drawn(tmp_path) -> None:
    with commanding(tmp_path) as served:
        for command in COMMANDS:
            assert posted(served, command)[0] == 200
        said = json.loads(posted(served, "PLOT COUNT OF order BY status OVER day")[1])
        assert said["plot"] == {
            "x": "bucket",
            "y": ["count"],
            "series": "status",
            "kind": "line",
        }
        assert [row["count"] for row in said["rows"]] == [1, 1]
        assert "plot" not in json.loads(posted(served, "PLOT COUNT OF nothing")[1])
        assert posted(served, "PLOT COUNT OF order", Accept="text/csv")[1] == b"count\n2\n"
