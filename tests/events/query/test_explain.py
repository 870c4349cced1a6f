"""Goal: EXPLAIN says how a query is read, and what of the store it skips."""

from typing import Any

from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import FIRST_US, StoredEvents
from typed_events.language.commands import Explain, Query, Sequence
from typed_events.language.expressions import And, Comparison, Field, InList, IsNull, Like, Not, Or
from typed_events.query.queries import Queries

ROWS = 40_000


def stored_in(root: Any) -> StoredEvents:
    """Store events of 1,000 contexts, sealed but for the last 500 of them."""
    stored = StoredEvents(root)
    stored.define("order", {"number": "int"})
    stored.define("payment", {"number": "int"})
    stored.define("refund", {"number": "int"}, is_made=False)
    for count in (ROWS, 500):
        contexts = [f"ctx-{n % 1000}" for n in range(count)]
        stored.store("order", contexts, [{"number": n} for n in range(count)])
        if count == ROWS:
            stored.streams["order"].seal()
    return stored


def steps(queries: Queries, query: Query) -> dict[str, str]:
    return {row["step"]: row["detail"] for row in rows_in(queries.explain(Explain(query)))}


def test_a_context_skips_row_groups_and_the_hot_rows_of_others(root):
    with stored_in(root), Queries(root) as queries:
        all_of_it = steps(queries, Query("order"))
        assert all_of_it["access"] == "all parts and all hot rows"
        assert all_of_it["parts of order"] == f"1 with {ROWS} rows"
        assert all_of_it["hot rows of order"] == "500 read"
        read, skipped = all_of_it["row groups"].split(", ")
        assert skipped == "0 skipped"
        assert int(read.split()[0]) > 2
        of_one = steps(queries, Query("order", "ctx-7"))
        assert of_one["access"] == "parts by context ctx-7, and the hot rows of it alone"
        assert of_one["hot rows of order"] == "1 read"
        assert of_one["row groups"].startswith("1 read, ")


def test_bounds_of_time_skip_row_groups(root):
    with stored_in(root), Queries(root) as queries:
        late = steps(queries, Query("order", since=FIRST_US + 10 * ROWS, until="2027-01-01"))
        assert late["time"] == f"timestamp from {FIRST_US + 10 * ROWS} to before 2027-01-01"
        assert late["row groups"].startswith("0 read, ")


def test_a_condition_is_written_as_the_language_has_it(root):
    where = And(
        (
            Or((Comparison(Field("number"), ">=", 5), IsNull(Field("number")))),
            Not(InList(Field("number"), (1, 2))),
            Like(Field("context_id"), "ctx-%"),
        )
    )
    with stored_in(root), Queries(root) as queries:
        assert steps(queries, Query("order", where=where))["condition"] == (
            '(number >= 5 OR number IS NULL) AND (NOT number IN (1, 2)) AND context_id LIKE "ctx-%"'
        )


def test_a_sequence_tells_of_both_types(root):
    pairs = Query("order", sequence=Sequence("payment", is_followed=True, link="context_id"))
    with stored_in(root), Queries(root) as queries:
        of_pairs = steps(queries, pairs)
        assert of_pairs["types"] == "order and payment"
        assert of_pairs["hot rows of payment"] == "0 read"
        assert steps(queries, Query("refund"))["hot rows of refund"] == (
            "none: nothing was stored of it"
        )
