"""Goal: a query that cannot be answered is refused in one line that says what to write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage_core.sql.pool.stream_pool import PoolOptions
from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import StoredEvents
from typed_events.answer import Status
from typed_events.errors import BusyError, CommandError, NotFoundError
from typed_events.event_store import EventStore
from typed_events.language.commands import (
    Aggregate,
    Explain,
    Order,
    Query,
    Replay,
    Sequence,
)
from typed_events.language.expressions import Comparison, Field, InList, Like, Or
from typed_events.query.queries import Queries

FIELDS = {
    "status": ["new", "paid"],
    "amount": "int",
    "price": "float | null",
    "ok": "bool",
    "day": "date | null",
    "at": "timestamp | null",
    "note": "string | null",
}
LARGEST = 2**63 - 1


@pytest.fixture
def stored(root: Path):
    """A root with orders and payments."""
    with StoredEvents(root) as events:
        events.define("order", FIELDS)
        events.define("payment", {"amount": "int", "note": "string", "who": "string"})
        events.define("refund", {"amount": "int"}, is_made=False)
        rows = [{"status": "new", "amount": LARGEST, "ok": True} for _ in range(3)]
        events.store("order", ["a", "b", "a"], rows)
        yield events


ORDER = Query("order")
PAIRS = Query("order", sequence=Sequence("payment", is_followed=True, link="context_id"))


def where(field: str, operator: str, value: object, event_type: str | None = None) -> Query:
    comparison = Comparison(Field(field, event_type), operator, value)  # type: ignore[arg-type]
    return replace(PAIRS if event_type == "pair" else ORDER, where=comparison)


REFUSED = {
    "unknown field": (where("amounts", "=", 1), "unknown field amounts; did you mean amount"),
    "other prefix": (where("amount", "=", 1, "payment"), "the query is of order alone"),
    "text for an int": (
        where("amount", "=", "5"),
        'amount is an int: write a number, as 5, not "5"',
    ),
    "bool for an int": (where("amount", "=", True), "not true"),
    "int for a text": (where("note", "=", 5), 'note is a string: write a text, as "paid", not 5'),
    "text for a bool": (where("ok", "=", "yes"), "ok is a bool: write true or false"),
    "order of bools": (where("ok", "<", True), "ok has no order"),
    "no time": (where("at", ">", "yesterday"), '"yesterday" is no time'),
    "no day": (where("day", ">", "2026-13-01"), "is no time"),
    "no position": (where("id", "=", "41"), 'write it as "0:41"'),
    "number like": (replace(ORDER, where=Like(Field("amount"), "5%")), "amount is no text"),
    "too many comparisons": (
        replace(ORDER, where=Or(tuple(Comparison(Field("amount"), "=", n) for n in range(1001)))),
        "at most 1,000 comparisons, this one has 1,001: IN takes many",
    ),
    "text in a list": (replace(ORDER, where=InList(Field("amount"), (1, "2"))), "amount is an int"),
    "half a character": (where("note", "=", "\ud800"), "half of a surrogate pair"),
    "order by": (replace(ORDER, order=Order(Field("prise"))), "did you mean price"),
    "offset": (replace(ORDER, offset=1), "OFFSET needs a LIMIT"),
    "using": (replace(ORDER, since=0, time_field="amount"), "amount is no time"),
    "since": (replace(ORDER, since="soon"), '"soon" is no time'),
    "total of text": (
        replace(ORDER, aggregates=(Aggregate("total", Field("note")),)),
        "note is no number: TOTAL takes ints and floats",
    ),
    "figures": (
        replace(ORDER, aggregates=(Aggregate("count"),), order=Order(Field("amount"))),
        "ORDER BY: unknown column amount; did you mean count",
    ),
    "by alone": (replace(ORDER, by=(Field("status"),)), "say which figure"),
    "returned figures": (
        replace(ORDER, aggregates=(Aggregate("count"),), returned=(Field("note"),)),
        "RETURN is for events",
    ),
    "total": (
        replace(ORDER, aggregates=(Aggregate("total", Field("amount")),)),
        "^TOTAL amount is beyond the largest int",
    ),
    "both have it": (
        replace(PAIRS, where=Comparison(Field("amount"), "=", 1)),
        "write order.amount or payment.amount",
    ),
    "returned by both": (
        replace(PAIRS, returned=(Field("note"),)),
        "write order.note or payment.note",
    ),
    "neither has it": (
        replace(PAIRS, where=Comparison(Field("whom"), "=", "x")),
        "unknown field whom; did you mean who",
    ),
    "a third type": (
        replace(PAIRS, where=Comparison(Field("amount", "refund"), "=", 1)),
        "the sequence is of order and payment",
    ),
    "no link": (
        replace(PAIRS, sequence=Sequence("payment", is_followed=True, link="status")),
        "payment: unknown field status",
    ),
    "unlike links": (
        Query("payment", sequence=Sequence("order", is_followed=True, link="ok")),
        "payment: unknown field ok",
    ),
    "one type": (
        Query("order", sequence=Sequence("order", is_followed=True, link="note")),
        "a sequence is of two types",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_is_refused_in_one_line(stored, name):
    query, message = REFUSED[name]
    with Queries(stored.root) as queries:
        with pytest.raises(CommandError, match=message.replace("(", r"\(")) as caught:
            rows_in(queries.query(query))
        assert "\n" not in caught.value.message
        assert len(rows_in(queries.query(ORDER))) == 3


def test_an_unknown_type_is_not_found_and_the_nearest_is_named(stored):
    with Queries(stored.root) as queries:
        for ask in (
            lambda: queries.query(Query("ordr")),
            lambda: queries.explain(Explain(Query("ordr"))),
            lambda: queries.replay(Replay("a", "ordr")),
        ):
            with pytest.raises(NotFoundError, match="did you mean order"):
                ask()


def test_where_there_is_no_store_nothing_is_found(root):
    with Queries(root / "nowhere") as queries:
        for ask in (lambda: queries.query(ORDER), lambda: queries.replay(Replay("a"))):
            with pytest.raises(NotFoundError, match="there is no store"):
                ask()


def test_names_that_are_unknown_are_left_out_of_what_is_returned(stored):
    with Queries(stored.root) as queries:
        query = replace(ORDER, returned=(Field("nope"), Field("ok"), Field("id")))
        assert [*rows_in(queries.query(query))[0]][5:] == ["ok"]
        assert [*rows_in(queries.query(replace(ORDER, returned=(Field("nope"),))))[0]][5:] == []


def test_a_type_of_which_nothing_was_stored_has_no_events(stored):
    with Queries(stored.root) as queries:
        assert rows_in(queries.query(Query("refund"))) == []
        assert rows_in(queries.query(PAIRS)) == []
        figures = Query(
            "refund", aggregates=(Aggregate("count"), Aggregate("max", Field("amount")))
        )
        assert rows_in(queries.query(figures)) == [{"count": 0, "max_amount": None}]
        with pytest.raises(CommandError, match="unknown field"):
            queries.query(Query("refund", where=Comparison(Field("x"), "=", 1)))


def test_more_queries_than_may_run_are_told_that_others_do(stored):
    rows = [{"status": "new", "amount": n, "ok": True} for n in range(60_000)]
    stored.store("order", ["a"] * len(rows), rows)
    with Queries(stored.root, PoolOptions(queries_max=1, wait_s=0.01)) as queries:
        batches: Any = queries.query(ORDER).batches
        assert next(batches).num_rows
        with pytest.raises(BusyError, match="1 queries run already"):
            queries.query(ORDER)
        batches.close()
        queries.query(ORDER)
        assert len(rows_in(queries.query(ORDER))) == len(rows) + 3


def test_a_line_of_refusal_fits_into_a_header(stored):
    with EventStore.open(stored.root) as store:
        answer = store.execute(f"QUERY order WHERE {'z' * 100_000} = 1")
    assert answer.status is Status.BAD_REQUEST
    assert answer.message.startswith("order: unknown field zzz")
    assert len(answer.message) == 2000
