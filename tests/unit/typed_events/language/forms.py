"""Every form of the language, and the command that it is."""

from collections.abc import Mapping

from typed_events.language.commands import (
    Aggregate,
    Batch,
    Command,
    Define,
    Delete,
    Describe,
    Explain,
    Flush,
    Forget,
    ListTypes,
    Order,
    Ping,
    Plot,
    Position,
    Query,
    Remember,
    Replay,
    Sequence,
    Show,
    Store,
    Subscribe,
)
from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    Field,
    InList,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Value,
)

ORDERS = Query("orders")
COUNT = Aggregate("count")


def figure(metric: str, field: str) -> Aggregate:
    """Return a figure of a field."""
    return Aggregate(metric, Field(field))  # type: ignore[arg-type]  # the tests spell it right


def holds(field: str, operator: Operator, value: Value) -> Comparison:
    """Return a comparison; `a.x` is field x of type a."""
    event_type, _, name = field.rpartition(".")
    return Comparison(Field(name, event_type or None), operator, value)


def is_true(field: str) -> Comparison:
    """Return what a bare field is."""
    return holds(field, "=", value=True)


DEFINES: Mapping[str, Command] = {
    'DEFINE orders FIELDS {amount: "int"}': Define("orders", None, {"amount": "int"}),
    'define orders as 2 fields { amount: "int | null", status: ["open", "paid"] }': Define(
        "orders", 2, {"amount": "int | null", "status": ("open", "paid")}
    ),
    'DEFINE cursors FIELDS {"x": "float", y: "float"} AS STATE TTL 30m': Define(
        "cursors", None, {"x": "float", "y": "float"}, 1800
    ),
    'DEFINE cursors AS 1 FIELDS {x: "float"} AS STATE TTL "7d"': Define(
        "cursors", 1, {"x": "float"}, 7 * 86_400
    ),
    'DEFINE a FIELDS {count: "int", by: "string", for: "uuid", as: "date"}': Define(
        "a", None, {"count": "int", "by": "string", "for": "uuid", "as": "date"}
    ),
}
STORES: Mapping[str, Command] = {
    'STORE orders FOR alice PAYLOAD {"amount": 5}': Store("orders", "alice", {"amount": 5}),
    'store orders as 3 for "alice smith" payload {}': Store("orders", "alice smith", {}, 3),
    'STORE orders FOR user:7/a@b.c-d_e PAYLOAD { "a" : -1.5e3 , "b":true,"c":false , "d": null }': (
        Store("orders", "user:7/a@b.c-d_e", {"a": -1500.0, "b": True, "c": False, "d": None})
    ),
    'STORE orders FOR 42 PAYLOAD {"a": "é\\u00e9\\n\\"\\\\"} IDEMPOTENCY "k 1" EXPECT 3': Store(
        "orders", "42", {"a": 'éé\n"\\'}, None, "k 1", 3
    ),
    'STORE orders FOR a PAYLOAD {"a": 0} EXPECT NONE IDEMPOTENCY k': Store(
        "orders", "a", {"a": 0}, None, "k", 0
    ),
    'STORE orders FOR for PAYLOAD {"a": 0} EXPECT ANY': Store("orders", "for", {"a": 0}),
    'BATCH [ STORE a FOR x PAYLOAD {"n": 1}; STORE b FOR y PAYLOAD {"n": 2} EXPECT 0; ]': Batch(
        (Store("a", "x", {"n": 1}), Store("b", "y", {"n": 2}, expect=0))
    ),
    'BATCH[STORE a FOR "x;]" PAYLOAD {"n": "];"}]': Batch((Store("a", "x;]", {"n": "];"}),)),
    'DELETE cursors FOR alice ROW "id 1"': Delete("cursors", "alice", "id 1"),
    "DELETE cursors FOR alice ROW 17": Delete("cursors", "alice", "17"),
    'DELETE cursors FOR alice ROW "" IDEMPOTENCY k-1': Delete("cursors", "alice", "", "k-1"),
    'STORE cursors FOR alice ROW "id 1" PAYLOAD {"x": 1}': Store(
        "cursors", "alice", {"x": 1}, row="id 1"
    ),
    "STORE cursors FOR alice ROW row PAYLOAD {} IDEMPOTENCY k": Store(
        "cursors", "alice", {}, idempotency_key="k", row="row"
    ),
    "BATCH [ STORE cursors FOR a ROW 1 PAYLOAD {}; DELETE cursors FOR a ROW 2; ]": Batch(
        (Store("cursors", "a", {}, row="1"), Delete("cursors", "a", "2"))
    ),
}
QUERIES: Mapping[str, Command] = {
    "QUERY orders": ORDERS,
    "query orders.v1-eu for alice": Query("orders.v1-eu", "alice"),
    "QUERY orders SINCE 2024-05-17T09:30:00+02:00 UNTIL 1715938200": Query(
        "orders", since="2024-05-17T09:30:00+02:00", until=1715938200
    ),
    'QUERY orders SINCE "2024-05-17 09:30" USING paid_at': Query(
        "orders", since="2024-05-17 09:30", time_field="paid_at"
    ),
    "QUERY orders RETURN [amount, status]": Query(
        "orders", returned=(Field("amount"), Field("status"))
    ),
    "QUERY orders RETURN []": Query("orders", returned=()),
    "QUERY orders ORDER BY amount": Query("orders", order=Order(Field("amount"))),
    "QUERY orders ORDER BY amount ASC": Query("orders", order=Order(Field("amount"))),
    "QUERY orders LIMIT 10 OFFSET 0 ORDER BY by DESC": Query(
        "orders", limit=10, order=Order(Field("by"), is_descending=True)
    ),
    "QUERY orders LIMIT 0": Query("orders", limit=0),
    "QUERY orders OFFSET 3 LIMIT 10": Query("orders", limit=10, offset=3),
    "QUERY orders AFTER 2:41": Query("orders", after=Position(2, 41)),
    'QUERY orders AFTER "0:0"': Query("orders", after=Position(0, 0)),
    "QUERY orders COUNT": Query("orders", aggregates=(COUNT,)),
    "QUERY orders COUNT amount, COUNT UNIQUE amount, TOTAL a, AVG a, MIN a, MAX a": Query(
        "orders",
        aggregates=(
            figure("count", "amount"),
            figure("count_unique", "amount"),
            *(figure(metric, "a") for metric in ("total", "avg", "min", "max")),
        ),
    ),
    "QUERY orders WHERE paid COUNT BY country, status PER day USING paid_at USING made_at": Query(
        "orders",
        where=is_true("paid"),
        aggregates=(COUNT,),
        by=(Field("country"), Field("status")),
        per="day",
        per_field="paid_at",
        time_field="made_at",
    ),
    **{
        f"QUERY orders COUNT PER {bucket.upper()}": Query("orders", aggregates=(COUNT,), per=bucket)
        for bucket in ("hour", "day", "week", "month", "year")
    },
    "QUERY a FOLLOWED BY b LINKED BY user WHERE a.x = 1 AND b.y = two": Query(
        "a",
        sequence=Sequence("b", is_followed=True, link="user"),
        where=And((holds("a.x", "=", 1), holds("b.y", "=", "two"))),
    ),
    "QUERY a PRECEDED BY b LINKED BY context_id LIMIT 5": Query(
        "a", sequence=Sequence("b", is_followed=False, link="context_id"), limit=5
    ),
    "EXPLAIN QUERY orders FOR alice": Explain(Query("orders", "alice")),
    "EXPLAIN PLOT COUNT OF orders FOR alice": Explain(
        Query("orders", "alice", aggregates=(COUNT,))
    ),
    "REMEMBER QUERY orders  FOR alice\n AS mine": Remember(
        Query("orders", "alice"), "QUERY orders  FOR alice", "mine"
    ),
    "SHOW mine": Show("mine"),
    "FORGET mine": Forget("mine"),
    "PLOT COUNT OF orders": Plot(Query("orders", aggregates=(COUNT,))),
    "PLOT TOTAL amount, COUNT OF orders BY country OVER hour USING paid_at WHERE paid": Plot(
        Query(
            "orders",
            where=is_true("paid"),
            aggregates=(figure("total", "amount"), COUNT),
            by=(Field("country"),),
            per="hour",
            per_field="paid_at",
        )
    ),
    "PLOT COUNT OF orders FOR a SINCE 1 UNTIL 2 USING t LIMIT 3": Plot(
        Query("orders", "a", 1, 2, "t", limit=3, aggregates=(COUNT,))
    ),
}
OTHERS: Mapping[str, Command] = {
    "REPLAY FOR alice": Replay("alice"),
    "REPLAY orders FOR alice SINCE 2024-05-17 RETURN [amount]": Replay(
        "alice", "orders", "2024-05-17", (Field("amount"),)
    ),
    "REPLAY RETURN [] FOR alice": Replay("alice", returned=()),
    "SUBSCRIBE orders": Subscribe("orders"),
    "SUBSCRIBE * FROM START": Subscribe(None, start="start"),
    "SUBSCRIBE orders FROM NOW FOR alice": Subscribe("orders", "alice"),
    "SUBSCRIBE orders WHERE paid FROM 0:12": Subscribe(
        "orders", where=is_true("paid"), start="0:12"
    ),
    "SUBSCRIBE * FROM orders/0:12,carts/3:4": Subscribe(None, start="orders/0:12,carts/3:4"),
    'SUBSCRIBE * FROM "orders/0:12,carts/3:4"': Subscribe(None, start="orders/0:12,carts/3:4"),
    "FLUSH": Flush(),
    "ping ;": Ping(),
    "LIST TYPES": ListTypes(),
    "DESCRIBE orders": Describe("orders"),
}
CONDITIONS: Mapping[str, Expression] = {
    **{f"a {sign} 5": holds("a", sign, 5) for sign in ("=", "!=", "<", "<=", ">", ">=")},
    "a=-1.5": holds("a", "=", -1.5),
    "a = 1e3": holds("a", "=", 1000.0),
    'a = "b c"': holds("a", "=", "b c"),
    "a = open": holds("a", "=", "open"),
    "a = 2024-05-17": holds("a", "=", "2024-05-17"),
    "a >= 2024-05-17T09:30:00Z": holds("a", ">=", "2024-05-17T09:30:00Z"),
    "a = 67e55044-10b1-426f-9247-bb680e5fe0c8": holds(
        "a", "=", "67e55044-10b1-426f-9247-bb680e5fe0c8"
    ),
    "a = TRUE": is_true("a"),
    "a = false": holds("a", "=", value=False),
    "a = and": holds("a", "=", "and"),
    'a IN (1, two, "three", true)': InList(Field("a"), (1, "two", "three", True)),
    "a NOT IN (1)": Not(InList(Field("a"), (1,))),
    'a LIKE "x%"': Like(Field("a"), "x%"),
    'a NOT LIKE "x_"': Not(Like(Field("a"), "x_")),
    "a IS NULL": IsNull(Field("a")),
    "a is not null": Not(IsNull(Field("a"))),
    "paid": is_true("paid"),
    "NOT paid": Not(is_true("paid")),
    '"not" = 1': holds("not", "=", 1),
    '"a.b" = 1': Comparison(Field("a.b"), "=", 1),
    "in IN (1)": InList(Field("in"), (1,)),
    "a AND b AND c": And((is_true("a"), is_true("b"), is_true("c"))),
    "a OR b AND NOT c": Or((is_true("a"), And((is_true("b"), Not(is_true("c")))))),
    "(a OR b) AND NOT (c)": And((Or((is_true("a"), is_true("b"))), Not(is_true("c")))),
    "NOT a = 1 AND b": And((Not(holds("a", "=", 1)), is_true("b"))),
    "NOT NOT a": Not(Not(is_true("a"))),
}
FORMS: Mapping[str, Command] = {
    **DEFINES,
    **STORES,
    **QUERIES,
    **OTHERS,
    **{
        f"QUERY orders WHERE {text}": Query("orders", where=expression)
        for text, expression in CONDITIONS.items()
    },
}
