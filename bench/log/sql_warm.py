"""SQL over a connection that has asked before, against DuckDB by itself over the same files.

Each side has one connection, which asks each question once before it counts. They take turns query
by query, forwards and backwards, so that what else the machine does meets all alike.
DuckDB by itself reads the files of the parts by `read_parquet`, as it comes but for
`parquet_metadata_cache`, which ours has too.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np

from bench.log.orders import ORDER_FIELDS, ORDER_ROWS, ORDERS, order_number, sealed_orders
from bench.measure import Contestant, Experiment, Measured, Row
from storage_core import StreamReader
from storage_core.sql import connect

_TIMES: Final = 15
_ORDERS_ASKED: Final = 50
_MOST: Final = ", ".join(f'max("{one}")' for one in ORDER_FIELDS)
_QUESTIONS: Final = {
    "count": f"SELECT count(*) FROM {ORDERS} WHERE quantity > 3",
    "scan": f"SELECT {_MOST} FROM {ORDERS}",
    "group": f"SELECT progress, count(*), avg(amount) FROM {ORDERS} GROUP BY ALL",
}
Ask = Callable[[str], Any]


@contextmanager
def _warm(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = sealed_orders(workspace)
    with StreamReader.open(root, ORDERS) as reader:
        listed = ", ".join(f"'{part.path}'" for part in reader.parts())
    with (
        connect(root, [ORDERS]) as proven,
        connect(root, [ORDERS], verify_checksums=False) as unproven,
        closing(duckdb.connect()) as plain,
    ):
        plain.execute("SET parquet_metadata_cache = true")
        plain.execute(f"CREATE VIEW {ORDERS} AS FROM read_parquet([{listed}])")
        asks: Mapping[str, Ask] = {
            "ours": lambda query: proven.sql(query).fetchall(),
            "not proven": lambda query: unproven.sql(query).fetchall(),
            "plain": lambda query: plain.sql(query).fetchall(),
        }
        for query in _QUESTIONS.values():
            assert len({len(ask(query)) for ask in asks.values()}) == 1
        yield {"sides": lambda: _measured(asks)}


def _measured(asks: Mapping[str, Ask]) -> Measured:
    chance = np.random.default_rng(13)
    places = chance.integers(0, ORDER_ROWS, _ORDERS_ASKED)
    orders = [f"FROM {ORDERS} WHERE number = '{order_number(int(at))}'" for at in places]
    repeated = {name: [query] * _TIMES for name, query in _QUESTIONS.items()} | {"order": orders}
    return {
        f"{side} {name}": seconds
        for name, queries in repeated.items()
        for side, seconds in _medians(asks, queries).items()
    }


def _medians(asks: Mapping[str, Ask], queries: list[str]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {side: [] for side in asks}
    for number, query in enumerate(queries):
        for side in list(asks)[:: 1 if number % 2 == 0 else -1]:
            start = time.perf_counter()
            assert asks[side](query)
            seconds[side].append(time.perf_counter() - start)
    return {side: statistics.median(each) for side, each in seconds.items()}


_TEXTS: Final = {
    "count": "`count(*)` of a condition on one column",
    "scan": "all columns of all orders",
    "group": "`GROUP BY` of an enum over all orders",
    "order": f"all columns of one order by its number, of {ORDER_ROWS:,}, p50",
}
# A query costs some 2.5 ms more than by DuckDB itself, whatever it reads: of these two a third and
# a half. Of 250 filters that an order asks, each is looked up in DuckDB's cache by itself.
_LIMITS: Final = {"count": 1.5, "order": 2.0}
_WANTED: Final = {"order": 1.5}
WARM: Final = Experiment(
    "sql-warm",
    tuple(
        Row(
            f"sql-warm/{name}{kind}",
            f"{text}, warm, {relation} DuckDB by itself over the same files",
            ("sides", f"{side} {name}"),
            ("sides", f"plain {name}"),
            sense="at most",
            limit=_LIMITS.get(name, 1.15),
            wanted=_WANTED.get(name, 1.15),
        )
        for kind, side, relation in (
            ("", "ours", "against"),
            ("-not-proven", "not proven", "not proven, against"),
        )
        for name, text in _TEXTS.items()
    ),
    _warm,
    bytes_needed=2**30 + ORDER_ROWS * 150,
)
