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


def test_a_uuid_is_found_in_either_case(root):
    upper = "67E55044-10B1-426F-9247-BB680E5FE0C8"
    with EventStore.open(root) as store:
        store.execute('DEFINE visit FIELDS { session: "uuid | null" }')
        store.execute(f'STORE visit FOR ann PAYLOAD {{ "session": "{upper}" }}')
        store.execute("STORE visit FOR bob PAYLOAD {}")
        for condition, contexts in {
            f'session = "{upper}"': ["ann"],
            f'session IN ("{upper.lower()}")': ["ann"],
            f'session != "{upper}"': ["bob"],
            f'session >= "{upper}"': ["ann"],
            'session LIKE "67e5%"': ["ann"],
        }.items():
            rows = columns(store, f"QUERY visit WHERE {condition}", "context_id")
            assert [context for (context,) in rows] == contexts, condition
        refused = store.execute('QUERY visit WHERE session = "67e55044"')
    assert refused.status == Status.BAD_REQUEST
    assert refused.message.startswith('session is a uuid: write a UUID, as "67e55044-10b1')


def test_a_uuid_links_to_a_uuid_and_to_a_text(root):
    uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8"
    with EventStore.open(root) as store:
        for name, kind in {"visit": "uuid", "click": "uuid", "note": "string"}.items():
            store.execute(f'DEFINE {name} FIELDS {{ session: "{kind}" }}')
            store.execute(f'STORE {name} FOR ann PAYLOAD {{ "session": "{uuid}" }}')
        for later in ("click", "note"):
            pairs = f"QUERY visit FOLLOWED BY {later} LINKED BY session"
            assert columns(store, pairs, f"{later}.session") == [(uuid,)]
