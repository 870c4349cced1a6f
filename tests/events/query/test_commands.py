"""Goal: the commands that read are answered by the store, as they are written."""

from typing import Any

from tests.events.query.test_queries_at_random import rows_in
from typed_events import EventStore
from typed_events.answer import Status

COMMANDS = (
    'DEFINE order FIELDS { status: ["new", "paid"], amount: "int", "at": "date | null" }',
    'DEFINE payment FIELDS { amount: "int" }',
    'STORE order FOR c-1 PAYLOAD { "status": "new", "amount": 5, "at": "2026-01-01" }',
    'STORE order FOR c-2 PAYLOAD { "status": "paid", "amount": 7 }',
    'STORE payment FOR c-1 PAYLOAD { "amount": 5 }',
)


def columns(store: EventStore, command: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows_in(store.execute(command))]


def test_commands_that_read_are_answered(root):
    with EventStore.open(root) as store:
        for command in COMMANDS:
            assert store.execute(command).status == Status.OK
        query = 'QUERY order WHERE amount >= 5 AND NOT status = "paid" RETURN [amount]'
        assert columns(store, query, "context_id", "amount") == [("c-1", 5)]
        assert columns(store, "QUERY order COUNT, TOTAL amount BY status", "total_amount") == [
            (5,),
            (7,),
        ]
        pairs = "QUERY order FOLLOWED BY payment LINKED BY context_id"
        assert columns(store, pairs, "order.id", "payment.id") == [("0:0", "0:0")]
        assert columns(store, "REPLAY FOR c-1", "event_type") == [("order",), ("payment",)]
        explained = columns(store, "EXPLAIN QUERY order FOR c-1", "step", "detail")
        assert ("hot rows of order", "1 read") in explained
        assert store.execute("QUERY order FOR nobody").message == "No matching events found"
        assert store.execute("QUERY ordr").status == Status.NOT_FOUND
        refused = store.execute('QUERY order WHERE amount = "5"')
        assert refused.status == Status.BAD_REQUEST
        assert refused.message.startswith("amount is an int: write a number")


def test_a_closed_store_answers_no_query(root):
    store = EventStore.open(root)
    store.execute(COMMANDS[0])
    store.close()
    assert store.execute("QUERY order").status != Status.OK
