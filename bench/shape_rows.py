"""The shape of blocks: their size and codec, so that the defaults can be chosen by numbers.

Each contestant is one shape: it appends a million records in durable batches, scans them, and
reads ranges of single ids, both where a thousand ids take turns and where an id's rows lie
together. Not part of a plain run, and without limits.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from bench.append_rows import append_batches
from bench.measure import Contestant, Experiment, Measured, Row
from bench.read_rows import (
    adjacent_ranges,
    fill_adjacent,
    interleaved_ranges,
    read_ranges,
    scan_stream,
)
from bench.records import PAYLOAD_BYTES, PayloadKind, record_batches
from bench.workspace import empty_directory
from storage_core import Stream, StreamOptions

ROWS: Final = 1_000_000
ADJACENT_ROWS: Final = 300_000
_BATCH_ROWS: Final = 10_000
_SCANS: Final = 5
_SIZES: Final = (1024, 2048, 4096, 8192)
_CODECS: Final = ("none", "lz4", "zstd")
_KINDS: Final[tuple[PayloadKind, ...]] = ("random", "compressible")
_FIELDS: Final = {
    "append_rate": "durable append of 10,000-record batches",
    "scan_rate": "full scan to Arrow",
    "turns_p50": "100 rows of one id among 1,000 in turns, p50",
    "together_p50": "100 rows of one id that lie together, p50",
    "block_bytes": "bytes of blocks for a million rows",
}


def measure_shape(workspace: Path, options: StreamOptions, kind: PayloadKind) -> Measured:
    """Return the figures of one shape."""
    batches = list(record_batches(ROWS // _BATCH_ROWS, _BATCH_ROWS, kind=kind, shuffled=False))
    with empty_directory(workspace) as path:
        append = append_batches(path, batches, options)["rate"]
        with Stream.open(path, "bench") as stream:
            scans = [scan_stream(stream, ROWS)["rate"] for _ in range(_SCANS)]
            turns = read_ranges(stream.read, interleaved_ranges(ROWS))
        size = sum(file.stat().st_size for file in path.rglob("*.sst"))
        with Stream.create(path, "adjacent", options) as stream:
            fill_adjacent(stream, ADJACENT_ROWS)
            together = read_ranges(stream.read, adjacent_ranges(ADJACENT_ROWS))
    return {
        "append_rate": append,
        "scan_rate": median(scans),
        "turns_p50": turns["p50"],
        "together_p50": together["p50"],
        "block_bytes": size,
    }


@contextmanager
def _sizes(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    yield {
        str(size): partial(
            measure_shape,
            workspace,
            StreamOptions(shards=1, block_records=size, block_bytes=size * (PAYLOAD_BYTES + 28)),
            "random",
        )
        for size in _SIZES
    }


@contextmanager
def _codecs(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    yield {
        f"{codec} on {kind}": partial(
            measure_shape, workspace, replace(StreamOptions(shards=1), codec=codec), kind
        )
        for codec in _CODECS
        for kind in _KINDS
    }


def _rows(name: str, contestants: list[str]) -> tuple[Row, ...]:
    return tuple(
        Row(f"{name}/{contestant}/{field}", f"{text}: {contestant}", (contestant, field))
        for field, text in _FIELDS.items()
        for contestant in contestants
    )


BLOCKS: Final = Experiment(
    "blocks", _rows("blocks", [str(size) for size in _SIZES]), _sizes, is_default=False
)
CODECS: Final = Experiment(
    "codecs",
    _rows("codecs", [f"{codec} on {kind}" for codec in _CODECS for kind in _KINDS]),
    _codecs,
    is_default=False,
)
