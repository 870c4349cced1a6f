"""Expiry: how long the oldest tenth of a shard takes to go, and what commits wait meanwhile.

A shard of one hour after the other is written in payloads of one kilobyte; then the clock moves on
and the hours of its first tenth go, while a second thread commits a few rows again and again.
SHARDLOG_BENCH_EXPIRY_GB says how large the shard is.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row
from storage_core import Stream, StreamOptions

_BYTES: Final = int(float(os.environ.get("SHARDLOG_BENCH_EXPIRY_GB", "1")) * 10**9)
_HOURS: Final = 20
_EXPIRED: Final = 2
_PAYLOAD_BYTES: Final = 1000
_ROWS: Final = 4096
_FEW_ROWS: Final = 10
_HOUR: Final = 3600
_NOW: Final = 472_222 * _HOUR
_BEFORE_S: Final = 0.5


@contextmanager
def _expiry(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    rounds = iter(range(1000))
    yield {"expiry": lambda: _expire(workspace, f"expiring-{next(rounds)}")}


def _expire(root: Path, name: str) -> Measured:
    options = StreamOptions(shards=1, unit="s", retention=timedelta(hours=_HOURS))
    with Stream.create(root, name, options) as stream:
        _fill(stream)
        waits: list[float] = []
        is_over = threading.Event()

        def commit_again_and_again() -> None:
            while not is_over.is_set():
                begin = time.perf_counter()
                stream.append_batch(_batch(_HOURS - 1, _FEW_ROWS))
                stream.commit()
                waits.append(time.perf_counter() - begin)

        committing = threading.Thread(target=commit_again_and_again)
        committing.start()
        try:
            time.sleep(_BEFORE_S)  # noqa: TID251 - what commits take without it
            before = len(waits)
            begin = time.perf_counter()
            report = stream.expire(_NOW + (_HOURS + _EXPIRED) * _HOUR)
            seconds = time.perf_counter() - begin
        finally:
            is_over.set()
            committing.join()
        assert report.windows == _EXPIRED
        assert report.bytes >= 0.8 * _EXPIRED / _HOURS * _BYTES
        return {
            "seconds": seconds,
            "stall_seconds": max(waits[before:]),
            "undisturbed_seconds": max(waits[:before]),
        }


def _fill(stream: Stream) -> None:
    batches = max(1, _BYTES // _HOURS // (_ROWS * _PAYLOAD_BYTES))
    for hour in range(_HOURS):
        for _ in range(batches):
            stream.append_batch(_batch(hour, _ROWS))
        stream.commit()


def _batch(hour: int, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "primary": np.full(rows, _NOW + hour * _HOUR),
            "secondary": np.arange(rows, dtype=np.int32) % 1000,
            "payload": pa.array([bytes(_PAYLOAD_BYTES)] * rows, pa.binary()),
        }
    )


EXPIRY: Final = Experiment(
    "expiry",
    (
        Row(
            "expiry/seconds",
            f"expiry of 10 % of {_BYTES / 10**9:g} GB",
            ("expiry", "seconds"),
            sense="at most",
            limit=2.0,
            wanted=0.5,
        ),
        Row(
            "expiry/stall",
            "the longest that a commit of ten rows took meanwhile, in seconds",
            ("expiry", "stall_seconds"),
            sense="at most",
            limit=0.1,
            wanted=0.05,
        ),
        Row(
            "expiry/undisturbed",
            "the longest that one took just before, in seconds",
            ("expiry", "undisturbed_seconds"),
            sense=None,
        ),
    ),
    _expiry,
    rounds_max=3,
    bytes_needed=4 * _BYTES,
)
