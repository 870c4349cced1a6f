"""SQL that compares what it reads with its digests, against SQL that does not.

Both ask the same parts of orders, by turns: all their columns once, a grouping, and one order by
its number. A whole scan is the first of its connection: nothing is kept from one before. Beside the
clock, processor time: on a machine that does other work it tells what the clock would.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.log.orders import ORDER_FIELDS, ORDER_ROWS, ORDERS, order_number, sealed_orders
from bench.measure import Contestant, Experiment, Measured, Row
from storage_core.sql import Streams, connect

_SCANS: Final = 7
_ORDERS_ASKED: Final = 50
_MOST: Final = ", ".join(f'max("{one}")' for one in ORDER_FIELDS)
_ALL_COLUMNS: Final = f"SELECT {_MOST} FROM {ORDERS}"
_GROUPS: Final = f"SELECT progress, count(*), avg(amount) FROM {ORDERS} GROUP BY ALL"
# By the clock, and by processor time.
Seconds = tuple[float, float]


@contextmanager
def _proven(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = sealed_orders(workspace)
    yield {
        "proven": lambda: _measured(lambda: connect(root, [ORDERS])),
        "not proven": lambda: _measured(lambda: connect(root, [ORDERS], verify_checksums=False)),
    }


def _measured(opened: Callable[[], Streams]) -> Measured:
    scans, groups = [], []
    for _ in range(_SCANS):
        with opened() as streams:
            scans.append(_seconds(streams, _ALL_COLUMNS))
        with opened() as streams:
            groups.append(_seconds(streams, _GROUPS))
    with opened() as streams:
        orders = _orders(streams)
    return {
        **_medians("scan", scans),
        **_medians("group", groups),
        **_medians("order", orders),
        **_medians("first", orders[:1]),
    }


def _orders(streams: Streams) -> list[Seconds]:
    chance = np.random.default_rng(12)
    return [
        _seconds(streams, f"FROM {ORDERS} WHERE number = '{order_number(int(place))}'")
        for place in chance.integers(0, ORDER_ROWS, _ORDERS_ASKED)
    ]


def _seconds(streams: Streams, query: str) -> Seconds:
    start, start_cpu = time.perf_counter(), time.process_time()
    answer: Any = streams.sql(query).fetchall()
    assert answer
    return time.perf_counter() - start, time.process_time() - start_cpu


def _medians(name: str, seconds: Sequence[Seconds]) -> Measured:
    clock, cpu = zip(*seconds, strict=True)
    return {name: statistics.median(clock), f"{name}-cpu": statistics.median(cpu)}


_TEXTS: Final = {
    "scan": "all columns of all orders, by a new connection",
    "group": "`GROUP BY` of an enum over all orders, by a new connection",
    "order": f"all columns of one order by its number, of {ORDER_ROWS:,}, p50",
    "first": "the same, the first of a connection",
}
_LIMITS: Final = {"scan": 1.15, "group": 1.15, "order": 1.5}
PROVEN: Final = Experiment(
    "sql-proven",
    tuple(
        Row(
            f"sql-proven/{name}{kind}",
            f"{text}, proven against not proven{', by processor time' if kind else ''}",
            ("proven", f"{name}{kind}"),
            ("not proven", f"{name}{kind}"),
            sense="at most",
            limit=None if kind else _LIMITS.get(name),
        )
        for kind in ("", "-cpu")
        for name, text in _TEXTS.items()
    ),
    _proven,
    bytes_needed=2**30 + ORDER_ROWS * 150,
)
