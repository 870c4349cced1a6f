"""Single records: the rate of `append`, and the latency of one durable record.

The latency is set against two bare syncs: an append of as many bytes as one record costs in
our WAL, and 88 bytes in turn into two places of a side file. Ids have been seen before the
clock starts, as in a stream that has run for a while.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.peers import SegmentFile, SideFile
from bench.records import DEVICES, FIRST_PRIMARY, payload_array, record_batches
from bench.workspace import empty_directory
from storage_core import Stream, StreamOptions

RECORDS: Final = 500_000
COMMIT_EVERY: Final = 10_000
DURABLE_RECORDS: Final = 400
_ONE_RECORD_BYTES: Final = 744
_POOL: Final = 1024
_OPTIONS: Final = StreamOptions(shards=1)


@contextmanager
def _single(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payloads = payload_array(_POOL, 100, seed=1).to_pylist()
    ids = [number * 617 % DEVICES for number in range(_POOL)]

    def ours() -> Measured:
        with (
            empty_directory(workspace) as path,
            Stream.create(path, "bench", _OPTIONS) as stream,
        ):
            append = stream.append
            with timed(RECORDS) as measured:
                for first in range(FIRST_PRIMARY, FIRST_PRIMARY + RECORDS, COMMIT_EVERY):
                    for primary in range(first, first + COMMIT_EVERY):
                        at = primary % _POOL
                        append(primary, ids[at], payloads[at])
                    stream.commit()
            assert stream.committed() == {0: RECORDS}
        return measured

    yield {"ours": ours}


@contextmanager
def _durable(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payload = payload_array(1, 100, seed=1)[0].as_py()
    (known,) = record_batches(1, 10 * DEVICES, shuffled=False)

    def ours() -> Measured:
        seconds = []
        with (
            empty_directory(workspace) as path,
            Stream.create(path, "bench", _OPTIONS) as stream,
        ):
            stream.append_batch(known)
            stream.commit()
            for number in range(known.num_rows, known.num_rows + DURABLE_RECORDS):
                start = time.perf_counter()
                stream.append(FIRST_PRIMARY + number, number % DEVICES, payload)
                stream.commit()
                seconds.append(time.perf_counter() - start)
            assert stream.committed() == {0: known.num_rows + DURABLE_RECORDS}
        return latencies(seconds)

    def bare() -> Measured:
        seconds = []
        with (
            empty_directory(workspace) as path,
            closing(SideFile(path / "side")) as side,
            closing(SegmentFile(path / "data")) as segment,
        ):
            piece = [bytes(_ONE_RECORD_BYTES)]
            for _ in range(DURABLE_RECORDS):
                start = time.perf_counter()
                segment.append(piece)
                side.sync()
                seconds.append(time.perf_counter() - start)
        return latencies(seconds)

    yield {"ours": ours, "two bare syncs": bare}


SINGLE: Final = Experiment(
    "single",
    (
        Row(
            "single/rate",
            "single-record `append`, 100-byte payloads, 1,000 ids, committed every 10,000",
            ("ours", "rate"),
            limit=300_000,
            wanted=600_000,
        ),
        Row(
            "single/cpu",
            "the same by processor time, RocksDB's threads included",
            ("ours", "cpu_rate"),
        ),
    ),
    _single,
)
DURABLE: Final = Experiment(
    "durable",
    (
        Row(
            "durable/p50",
            "one durable append of one record, p50, against two bare fdatasyncs",
            ("ours", "p50"),
            ("two bare syncs", "p50"),
            "at most",
            limit=2.6,
            wanted=1.5,
        ),
        Row(
            "durable/p99",
            "the same, p99 against p99",
            ("ours", "p99"),
            ("two bare syncs", "p99"),
            "at most",
        ),
    ),
    _durable,
)
