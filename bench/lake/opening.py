"""Opening a table of many files: what everybody who publishes or reads pays at first.

Few parts of ten fields are published; then the table gets as many files as
SHARDLOG_BENCH_LAKE_FILES says, ten thousand if not told, which have its columns and statistics,
other ranges of time and address, and nothing in them: nobody reads them. A hundred commits add
them, with checkpoints as publishing writes them, so that some lie behind the last one. New
processes open it.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.child import answer_of, memory_peak
from bench.log.sensors import ENTRIES, readings
from bench.measure import Contestant, Experiment, Measured, Row
from storage_core import Stream, StreamOptions, StreamReader
from storage_core.lake import lake_target, publish_stream
from storage_core.lake.app_id import stream_of
from storage_core.lake.image_names import image_of_path, shard_directory
from storage_core.lake.table import LakeTable, TableFile

_FILES: Final = int(os.environ.get("SHARDLOG_BENCH_LAKE_FILES", "10000"))
_COMMITS: Final = 98
_STREAM: Final = "many"
_ROWS: Final = 16_000
_FILE_ROWS: Final = 1_000_000
_FILE_BYTES: Final = 10_000_000
_FILE_MS: Final = 1_000_000
_ALL_DIGITS: Final = 32


@contextmanager
def _opening(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root, place = workspace / "root", workspace / "table"
    root.mkdir()
    options = StreamOptions(shards=1, lake=str(place))
    with Stream.create(root, _STREAM, options) as stream:
        for batch in readings(_ROWS):
            stream.append_batch(batch, schemas=ENTRIES)
        stream.commit()
        stream.seal()
    assert publish_stream(root, _STREAM).rows == _ROWS
    table = _opened(root, place)
    assert table is not None
    statistics = _statistics_of(place, min(table.files(0)))
    for number in range(_COMMITS):
        first, behind = (_FILES * part // _COMMITS for part in (number, number + 1))
        files = [_file(place, at, statistics) for at in range(first, behind)]
        table.commit(0, files, (), image_of_path(files[-1].path).last + 1)
    files_count = len(table.files(0))
    yield {"new process": lambda: answer_of(_open, root, place, files_count)}


def _opened(root: Path, place: Path) -> LakeTable | None:
    with StreamReader.open(root, _STREAM) as reader:
        return LakeTable.open(lake_target(str(place)), stream_of(reader))


def _statistics_of(table: Path, path: str) -> dict[str, Any]:
    """Return what the table says of the values in a file."""
    for log in sorted((table / "_delta_log").glob("*.json")):
        for line in log.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is not None and added["path"] == path:
                statistics: dict[str, Any] = json.loads(added["stats"])
                return statistics
    message = f"no version added {path}"
    raise AssertionError(message)


def _file(table: Path, number: int, statistics: Mapping[str, Any]) -> TableFile:
    """Make a file of a million rows behind those of the file before, which takes no room."""
    first = _ROWS + number * _FILE_ROWS
    last = first + _FILE_ROWS - 1
    path = f"{shard_directory(0)}{first:020}-{last:020}-{number:0{_ALL_DIGITS}x}.parquet"
    (table / path).touch()
    os.truncate(table / path, _FILE_BYTES + number)
    bounds = {
        end: {
            **statistics[end],
            "primary": statistics[end]["primary"] + (number + 1) * _FILE_MS,
            "address": address,
        }
        for end, address in (("minValues", first), ("maxValues", last))
    }
    text = json.dumps({**statistics, "numRecords": _FILE_ROWS, **bounds})
    return TableFile(path, _FILE_BYTES + number, _FILE_ROWS, text, is_new=True)


def _open(root: Path, place: Path, files: int) -> Measured:
    with StreamReader.open(root, _STREAM) as reader:
        stream = stream_of(reader)
    target = lake_target(str(place))
    before = memory_peak()
    start, start_cpu = time.perf_counter(), time.process_time()
    table = LakeTable.open(target, stream)
    assert table is not None
    opened = time.perf_counter() - start
    assert table.published(0) == _ROWS + _FILES * _FILE_ROWS
    assert len(table.files(0)) == files >= _FILES
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    start = time.perf_counter()
    table.reload()
    reloaded = time.perf_counter() - start
    grown = memory_peak() - before
    return {
        "opened": opened,
        "seconds": seconds,
        "cpu": cpu,
        "reloaded": reloaded,
        "bytes": float(grown),
    }


def _row(name: str, text: str, field: str, limit: float | None = None) -> Row:
    return Row(f"lake-open/{name}", text, ("new process", field), sense="at most", limit=limit)


LAKE_OPEN: Final = Experiment(
    "lake-open",
    (
        _row(
            "files",
            f"opening a table of {_FILES:,} files, up to where a shard is published, and its "
            "files, by a new process, in seconds",
            "seconds",
            limit=2.0,
        ),
        _row("opened", "the first of these alone", "opened"),
        _row("cpu", "processor time of all three", "cpu"),
        _row("reload", "a look whether there is a newer version, where there is none", "reloaded"),
        _row("memory", "bytes by which the memory of its process grows", "bytes"),
    ),
    _opening,
    bytes_needed=2**30,
)
