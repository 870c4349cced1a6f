"""Each form of the language is answered alike, whichever door it comes by: as `execute` does."""

import pytest

from tests.events.front_ends.doors import DOORS, Told, commanding, open_door
from tests.events.front_ends.storing import storing
from typed_events.event_store import EventStore

BATCH = (
    'BATCH [ STORE payment FOR c PAYLOAD { "amount": 6, "by": "ü \\"x\\"" }; '
    'STORE order FOR c PAYLOAD { "amount": 8, "status": "new" } ]'
)
FORMS = (
    "PING",
    'DEFINE order FIELDS { amount: "int", status: ["new", "paid"], at: "timestamp | null" }',
    'DEFINE payment FIELDS { amount: "int", by: "string" }',
    'STORE order FOR c-1 PAYLOAD { "amount": 5, "status": "new" }',
    'STORE order FOR "c 2" PAYLOAD { "amount": 7, "status": "paid", "at": 0 } IDEMPOTENCY "k-1"',
    'STORE order FOR "c 2" PAYLOAD { "amount": 7, "status": "paid", "at": 0 } IDEMPOTENCY "k-1"',
    'STORE order FOR c-1 PAYLOAD { "amount": 6, "status": "paid" } EXPECT 1;',
    'STORE order FOR c-1 PAYLOAD { "amount": 6, "status": "paid" } EXPECT NONE',
    'STORE order FOR c-1 PAYLOAD { "amount": 6, "status": "gone" }',
    'STORE ordre FOR c-1 PAYLOAD { "amount": 6 }',
    BATCH,
    'BATCH [ STORE payment FOR c-1 PAYLOAD { "amount": "x", "by": "a" } ]',
    'DEFINE cursor FIELDS { line: "int" } AS STATE TTL 30m',
    'STORE cursor FOR c-1 ROW "a 1" PAYLOAD { "line": 1 }',
    'STORE cursor FOR c-1 ROW "a 1" PAYLOAD { "line": 2 }',
    'STORE cursor FOR c-2 PAYLOAD { "line": 3 }',
    'STORE cursor FOR c-2 PAYLOAD { "line": 3 } EXPECT 1',
    "QUERY cursor",
    'DELETE cursor FOR c-1 ROW "a 1" IDEMPOTENCY k',
    'DELETE cursor FOR c-1 ROW "a 1" IDEMPOTENCY k',
    "QUERY cursor COUNT, TOTAL line",
    "REPLAY cursor FOR c-1",
    "DESCRIBE cursor",
    "REMEMBER QUERY cursor AS cursors",
    'DEFINE cursor FIELDS { line: "int" }',
    "FLUSH",
    "LIST TYPES",
    "DESCRIBE order",
    "DESCRIBE nothing",
    "QUERY order",
    "QUERY order FOR c-1 WHERE amount >= 6 RETURN [amount] LIMIT 1",
    "QUERY order WHERE amount > 1000",
    "QUERY order COUNT, TOTAL amount BY status PER year",
    "QUERY order FOLLOWED BY payment LINKED BY context_id",
    "QUERY payment PRECEDED BY order LINKED BY context_id",
    "QUERY nothing",
    "QUERY order WHERE nothing = 1",
    "EXPLAIN QUERY order WHERE amount > 5",
    "REPLAY order FOR c-1",
    "REPLAY FOR c-1",
    "PLOT COUNT OF order BY status",
    "PLOT AVG amount, COUNT OF order BY status OVER year WHERE amount > 1",
    "PLOT COUNT OF nothing",
    "EXPLAIN PLOT COUNT OF order",
    "SHOW nothing",
    "FORGET nothing",
    'DELETE order FOR c-1 ROW "1"',
    "NOPE",
    "QUERY",
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    """What `execute` answers to each form."""
    with EventStore.open(tmp_path_factory.mktemp("alike")) as store:
        return [Told.of_answer(store.execute(form)) for form in FORMS]


@pytest.mark.parametrize("name", DOORS)
def test_each_form_is_answered_as_by_execute(name, tmp_path, shardlog, expected) -> None:
    with open_door(name, tmp_path / "root", shardlog) as door:
        replies = [door.tell(form) for form in FORMS]
    assert differing(replies, expected) == {}


def test_each_form_is_answered_alike_on_a_connection_that_stores(tmp_path, expected) -> None:
    replies = []
    with commanding(tmp_path / "root") as served, storing(served) as client:
        for form in FORMS:
            if not client.is_handed_over:
                client.hand_over()
            replies.append(client.ask(form).answer)
    assert differing(replies, expected) == {}


def differing(replies: list[Told], expected: list[Told]) -> dict[int, tuple[str, Told, Told]]:
    """Return the forms that were answered otherwise than expected, by their number."""
    rows = enumerate(zip(FORMS, replies, expected, strict=True))
    return {number: row for number, row in rows if row[1] != row[2]}
