"""Small commits: what rows cost that came one by one, against the same rows of one commit.

All of one id, all by address, `latest`, `verify`, and what the files take: while the log has their
blocks (hot), and once both are sealed, compacted, trimmed and opened anew.
SHARDLOG_BENCH_SMALL_ROWS says how many rows there are.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row
from storage_core import Stream, StreamOptions

_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_SMALL_ROWS", "5000"))
_IDS: Final = 7
_TIMES: Final = 5


@contextmanager
def _small(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    rounds = iter(range(1000))
    yield {
        "one by one": lambda: _measured(workspace, f"small-{next(rounds)}", _one_by_one),
        "at once": lambda: _measured(workspace, f"small-{next(rounds)}", _at_once),
    }


def _one_by_one(stream: Stream) -> None:
    for number in range(_ROWS):
        stream.append(number, number % _IDS, b"%08d" % number)
        stream.commit()


def _at_once(stream: Stream) -> None:
    numbers = np.arange(_ROWS)
    columns: dict[str, Any] = {
        "primary": numbers,
        "secondary": (numbers % _IDS).astype(np.int32),
        "payload": pa.array([b"%08d" % number for number in range(_ROWS)], pa.binary()),
    }
    stream.append_batch(pa.RecordBatch.from_pydict(columns))
    stream.commit()


def _measured(root: Path, name: str, write: Callable[[Stream], None]) -> Measured:
    with Stream.create(root, name, StreamOptions(shards=1)) as stream:
        written = _seconds(lambda: write(stream))
    hot = {f"hot_{figure}": one for figure, one in _query_rates(root, name).items()}
    with Stream.open(root, name) as stream:
        maintenance = _seconds(lambda: (stream.seal(), stream.compact(), stream.trim()))
    rates = _query_rates(root, name)
    return {**hot, **rates, "write_seconds": written, "maintenance_seconds": maintenance}


def _query_rates(root: Path, name: str) -> dict[str, float]:
    with Stream.open(root, name) as stream:
        rates = {
            "id_seconds": min(_seconds(lambda: stream.read(3)) for _ in range(_TIMES)),
            "tail_seconds": min(_seconds(lambda: list(stream.tail(0))) for _ in range(_TIMES)),
            "latest_seconds": min(_seconds(stream.latest) for _ in range(_TIMES)),
            "verify_seconds": _seconds(stream.verify),
        }
    size = sum(one.stat().st_size for one in (root / name).rglob("*") if one.is_file())
    return {**rates, "bytes": size / _ROWS, "tail_rate": _ROWS / rates["tail_seconds"]}


def _seconds(do: Callable[[], object]) -> float:
    begin = time.perf_counter()
    do()
    return time.perf_counter() - begin


def _row(kind: str, text: str, limit: float | None, wanted: float | None = None) -> Row:
    return Row(
        f"small/{kind}",
        f"{text} that came in commits of one and were trimmed, against rows of one commit",
        ("one by one", kind),
        ("at once", kind),
        sense="at most",
        limit=limit,
        wanted=wanted,
    )


SMALL: Final = Experiment(
    "small",
    (
        _row("id_seconds", "`read` of one id of rows", 5, 2),
        _row("tail_seconds", "`tail` of rows", 5, 2),
        _row("verify_seconds", "`verify` of rows", 5, 2),
        _row("bytes", "bytes a record of rows", 3, 1.5),
        _row("maintenance_seconds", "seal, compaction and trim of rows", None),
        *(
            Row(
                f"small/hot_{figure}",
                f"{text} that came in commits of one and have their blocks, against one commit",
                ("one by one", f"hot_{figure}"),
                ("at once", f"hot_{figure}"),
                sense="at most",
            )
            for figure, text in (
                ("id_seconds", "`read` of one id of rows"),
                ("tail_seconds", "`tail` of rows"),
                ("latest_seconds", "`latest` of rows"),
                ("verify_seconds", "`verify` of rows"),
                ("bytes", "bytes a record of rows"),
            )
        ),
        Row(
            "small/hot_tail_rate",
            "rows a second of `tail`, that came in commits of one and have their blocks",
            ("one by one", "hot_tail_rate"),
            limit=20_000,
            wanted=80_000,
        ),
    ),
    _small,
    rounds_max=3,
)
