"""Appends to streams of many ids, or many keys: of every ten rows three are of a new one.

The others are of any that came before, so that hardly any is met again soon: what a shard
remembers of them does not help, and its store is asked. Set against it is the same number of rows
of a thousand. Each is a process of its own, so that its peak of memory is what this took.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.child import answer_of, memory_peak
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import DEVICES, FIRST_PRIMARY, payload_array
from bench.workspace import empty_directory
from storage_core import Stream, StreamOptions

_BATCH_ROWS: Final = 10_000
_NEW_OF_TEN: Final = 3
_MANY: Final = 10_000_000
_BATCHES: Final = -(-_MANY * 10 // (_NEW_OF_TEN * _BATCH_ROWS))
_COMMIT_EVERY: Final = 10
_MEMORY_MAX: Final = 600 * 10**6
_MEMORY_WANTED: Final = 300 * 10**6
_DIGITS: Final = 9


@contextmanager
def _many(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    def contestant(*, has_keys: bool, is_many: bool) -> Contestant:
        def append() -> Measured:
            with empty_directory(workspace) as path:
                return answer_of(append_many, path, has_keys, is_many)

        return append

    yield {
        "1,000 ids": contestant(has_keys=False, is_many=False),
        "10 M ids": contestant(has_keys=False, is_many=True),
        "1,000 keys": contestant(has_keys=True, is_many=False),
        "10 M keys": contestant(has_keys=True, is_many=True),
    }


def append_many(root: Path, has_keys: bool, is_many: bool) -> Measured:  # noqa: FBT001 - a task's
    """Append, with a commit every few batches; return the rate and the peak of memory."""
    options = StreamOptions(shards=1, key_mode="dictionary" if has_keys else "none")
    seconds = 0.0
    with Stream.create(root, "bench", options) as stream:
        for number, batch in enumerate(_batches(has_keys=has_keys, is_many=is_many)):
            start = time.perf_counter()
            stream.append_batch(batch)
            if number % _COMMIT_EVERY == 0:
                stream.commit()
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        stream.commit()
        seconds += time.perf_counter() - start
        assert stream.committed() == {0: _BATCHES * _BATCH_ROWS}
    return {"rate": _BATCHES * _BATCH_ROWS / seconds, "memory_bytes": memory_peak()}


def _batches(*, has_keys: bool, is_many: bool) -> Iterator[pa.RecordBatch]:
    chance, met = np.random.default_rng(7), 0
    payloads = payload_array(_BATCH_ROWS, 100, seed=1)
    for number in range(_BATCHES):
        fresh = np.arange(met, met + _BATCH_ROWS * _NEW_OF_TEN // 10) if is_many else np.empty(0)
        met += len(fresh)
        before = chance.integers(0, met or DEVICES, _BATCH_ROWS - len(fresh))
        ids = chance.permutation(np.concatenate([fresh, before]).astype(np.int32))
        first = FIRST_PRIMARY + number * _BATCH_ROWS
        columns = [pa.array(np.arange(first, first + _BATCH_ROWS)), payloads]
        yield pa.RecordBatch.from_arrays(
            [*columns, _keys_of(ids) if has_keys else pa.array(ids)],
            names=["primary", "payload", "key" if has_keys else "secondary"],
        )


def _keys_of(ids: np.ndarray[Any, np.dtype[np.int32]]) -> "pa.Array[Any]":
    """Return a key for each id: `user-` and nine digits."""
    digits = np.char.zfill(ids.astype(f"S{_DIGITS}"), _DIGITS)
    return pa.array(np.char.add(b"user-", digits).tolist(), pa.binary())


MANY: Final = Experiment(
    "many",
    (
        Row(
            "many/ids",
            "append of 10,000-record batches, 30 % of a new id up to 10 M, against 1,000 ids",
            ("10 M ids", "rate"),
            ("1,000 ids", "rate"),
            limit=0.25,
            wanted=0.5,
        ),
        Row(
            "many/ids_memory",
            "its peak of memory",
            ("10 M ids", "memory_bytes"),
            sense="at most",
            limit=_MEMORY_MAX,
            wanted=_MEMORY_WANTED,
        ),
        Row(
            "many/keys",
            "the same with keys of 14 bytes in a key dictionary",
            ("10 M keys", "rate"),
            ("1,000 keys", "rate"),
        ),
        Row(
            "many/keys_memory",
            "its peak of memory",
            ("10 M keys", "memory_bytes"),
            sense="at most",
            limit=_MEMORY_MAX,
            wanted=_MEMORY_WANTED,
        ),
        Row(
            "many/few_keys",
            "append of rows of 1,000 keys against 1,000 ids",
            ("1,000 keys", "rate"),
            ("1,000 ids", "rate"),
        ),
    ),
    _many,
    rounds_max=1,
    is_default=False,
    bytes_needed=12 * 2**30,
)
