"""SQL over a connection that has asked before, against DuckDB by itself over the same files.

Each side has one connection, which asks each question once before it counts; they take turns.
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
from storage_core.cold.sql import connect

_TIMES: Final = 9
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
        asks: dict[str, Ask] = {
            "ours": lambda query: proven.sql(query).fetchall(),
            "not proven": lambda query: unproven.sql(query).fetchall(),
            "plain": lambda query: plain.sql(query).fetchall(),
        }
        for query in _QUESTIONS.values():
            assert len({len(ask(query)) for ask in asks.values()}) == 1
        yield {name: _measured(ask) for name, ask in asks.items()}


def _measured(ask: Ask) -> Contestant:
    def measured() -> Measured:
        found = {name: _median(ask, [query] * _TIMES) for name, query in _QUESTIONS.items()}
        chance = np.random.default_rng(13)
        places = chance.integers(0, ORDER_ROWS, _ORDERS_ASKED)
        orders = [f"FROM {ORDERS} WHERE number = '{order_number(int(at))}'" for at in places]
        return {**found, "order": _median(ask, orders)}

    return measured


def _median(ask: Ask, queries: list[str]) -> float:
    seconds = []
    for query in queries:
        start = time.perf_counter()
        assert ask(query)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


_TEXTS: Final = {
    "count": "`count(*)` of a condition on one column",
    "scan": "all columns of all orders",
    "group": "`GROUP BY` of an enum over all orders",
    "order": f"all columns of one order by its number, of {ORDER_ROWS:,}, p50",
}
WARM: Final = Experiment(
    "sql-warm",
    tuple(
        Row(
            f"sql-warm/{name}{kind}",
            f"{text}, warm, {told} DuckDB by itself over the same files",
            (side, name),
            ("plain", name),
            sense="at most",
            limit=1.15,
        )
        for kind, side, told in (
            ("", "ours", "against"),
            ("-not-proven", "not proven", "not proven, against"),
        )
        for name, text in _TEXTS.items()
    ),
    _warm,
    bytes_needed=2**30 + ORDER_ROWS * 150,
)
