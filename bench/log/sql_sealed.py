"""SQL over sealed rows: one order among all; groups, against DuckDB on a plain file of them.

The plain file is DuckDB's own, written with its defaults in the order of arrival; both sides are
asked by connections that are open, as often in turn.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from bench.log.orders import (
    ORDER_ROWS,
    ORDERS,
    order_number,
    plain_orders,
    sealed_orders,
)
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from storage_core.sql import connect

_ORDERS_ASKED: Final = 50
_CONNECTIONS: Final = 5
_GROUPINGS_ASKED: Final = 5
_GROUPINGS: Final = {
    "progress": "SELECT progress, count(*), avg(amount) FROM orders GROUP BY ALL",
    "site": "SELECT site, count(*), sum(quantity), max(amount) FROM orders GROUP BY ALL",
    "id": 'SELECT secondary, count(*), min("primary"), max(amount) FROM orders GROUP BY ALL',
    "hour": 'SELECT "primary" // 3600000 AS hour, count(*), avg(amount) FROM orders GROUP BY ALL',
}
Ask = Callable[[str], Any]


@contextmanager
def _query_contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = sealed_orders(workspace)
    with connect(root) as streams, closing(duckdb.connect()) as plain:
        plain.execute(f"CREATE VIEW {ORDERS} AS FROM '{plain_orders(root)}'")
        of_plain: Ask = lambda query: plain.sql(query).fetchall()  # noqa: E731 - a pair
        ours: Ask = lambda query: streams.sql(query).fetchall()  # noqa: E731 - of two
        for query in _GROUPINGS.values():
            assert len(ours(query)) == len(of_plain(query))
        yield {
            "ours": lambda: {**_one_order(ours), **_connecting(root), **_groups(ours)},
            "plain": lambda: {**_one_order(of_plain), **_groups(of_plain)},
        }


def _one_order(ask: Ask) -> Measured:
    chance = np.random.default_rng(11)
    seconds = []
    for place in chance.integers(0, ORDER_ROWS, _ORDERS_ASKED):
        query = f"FROM {ORDERS} WHERE number = '{order_number(int(place))}'"
        start = time.perf_counter()
        rows = ask(query)
        seconds.append(time.perf_counter() - start)
        assert len(rows) == 1
    return latencies(seconds)


def _connecting(root: Path) -> Measured:
    """Return how long it takes from nothing to the first answer."""
    seconds = []
    for place in range(_CONNECTIONS):
        start = time.perf_counter()
        with connect(root) as streams:
            query = f"FROM {ORDERS} WHERE number = '{order_number(place)}'"
            assert len(streams.sql(query).fetchall()) == 1
        seconds.append(time.perf_counter() - start)
    return {"first": statistics.median(seconds)}


def _groups(ask: Ask) -> Measured:
    return {name: _seconds(ask, query) for name, query in _GROUPINGS.items()}


def _seconds(ask: Ask, query: str) -> float:
    seconds = []
    for _ in range(_GROUPINGS_ASKED):
        start = time.perf_counter()
        ask(query)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


_TEXTS: Final = {
    "progress": "`GROUP BY` of an enum over all orders",
    "site": "of a text of 200 values",
    "id": "of `secondary`, of a thousand",
    "hour": "of hours of `primary`",
}
SEALED_SQL: Final = Experiment(
    "sql",
    (
        Row(
            "sql/order-p50",
            f"all columns of one order by its number, of {ORDER_ROWS:,}, over a connection, p50",
            ("ours", "p50"),
            sense="at most",
            limit=0.030,
            wanted=0.010,
        ),
        Row("sql/order-p99", "the same, p99", ("ours", "p99"), sense="at most"),
        Row("sql/order-first", "the same with `connect`", ("ours", "first"), sense="at most"),
        Row(
            "sql/order-plain",
            "the same, p50, against DuckDB on a plain file",
            ("ours", "p50"),
            ("plain", "p50"),
            sense="at most",
        ),
        *(
            Row(
                f"sql/group-{name}",
                f"{text}, against DuckDB on a plain file",
                ("ours", name),
                ("plain", name),
                sense="at most",
                limit=1.5,
            )
            for name, text in _TEXTS.items()
        ),
    ),
    _query_contestants,
    bytes_needed=2**30 + ORDER_ROWS * 150,
)
