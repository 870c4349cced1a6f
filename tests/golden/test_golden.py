"""The golden store says all that it said when it was written, and today's program writes the same.

`write.py` tells what is in it. Every test works on a copy.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storage_core import StagingArea, StreamReader, list_streams
from storage_core.engine.rocksdb import open_store
from storage_core.format.keys import FAMILY_DEFAULT, FAMILY_LOG, PREFIX_PART
from storage_core.format.shard_state import KEY_PART_LIST
from tests.golden.write import (
    DEVICES,
    LANDING,
    LANDING_ROWS,
    READINGS,
    SERIES,
    STAGED,
    STAGED_ROWS,
    leave,
    open_later,
    said_by,
    stage,
)

HERE = Path(__file__).parent
BYTES_MAX = 350_000
BOTH = pytest.mark.parametrize("name", [DEVICES, READINGS])
# Names of keys, and what they begin with, that the stores of shards have.
PREFIXES = {*"zlfiwhdmtogkspa"}
NAMES = {
    *("next", "lineage", "generation", "born", "start", "floor", "heads", "heads most", "cut"),
    *("expired", "index", "keys", "schemas", "sealed", "parts", "catalogue", "trimmed"),
    *("segments", "source", "transactions"),
}
FILES = {
    *("root.json", "stream.json", "options.json", "drops.json", "marker", "manifest.json"),
    *("mark.json", "00000001", "rows-0000.arrow"),
}


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((HERE / "store.json").read_text())
    return answers


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(HERE / "store", tmp_path / "root")


def lies_in(root: Path) -> dict[str, Any]:
    """Return what lies in a root: the bytes of files, and what stores have under each key."""
    checksums: dict[str, Any] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        inside = str(path.relative_to(root))
        if "/db/" not in inside or "/segments/" in inside:
            checksums[inside] = path.read_bytes()
    for path in sorted(root.rglob("db")):
        store = open_store(path, "strict")
        view = store.snapshot()
        for family in (FAMILY_DEFAULT, FAMILY_LOG):
            for key, value in view.items(family, b"", None):
                checksums[f"{path.relative_to(root)} {family} {key!r}"] = value
        view.close()
        store.close()
    return checksums


def parquet_in(root: Path) -> str:
    """Return which library wrote the parts."""
    return str(pq.read_metadata(next(root.rglob("*.parquet"))).created_by)


def is_of_parquet(name: str) -> bool:
    """Tell whether bytes depend on the library that writes Parquet."""
    is_entry = f" {FAMILY_DEFAULT} b'{PREFIX_PART.decode()}" in name
    return name.endswith((".rows", ".parquet", repr(KEY_PART_LIST))) or is_entry


def test_program_of_today_writes_the_same_bytes(root, tmp_path):
    written = leave(tmp_path)
    is_same = parquet_in(root) == parquet_in(written)
    before, today = (
        {
            name: value
            for name, value in lies_in(folder).items()
            if is_same or not is_of_parquet(name)
        }
        for folder in (root, written)
    )
    assert today.keys() == before.keys()
    assert [what for what, value in today.items() if value != before[what]] == []


def test_store_has_every_kind_of_file_and_key(root):
    files = {path.name for path in root.rglob("*")}
    assert files >= FILES
    assert {Path(name).suffix for name in files} >= {".rows", ".parquet", ".arrow", ".sst", ".log"}
    keys = [eval(what.split(" ", 2)[2]) for what in lies_in(root) if "/db " in what]  # noqa: S307 - our own text
    of_family = [what.split(" ", 2)[1] for what in lies_in(root) if "/db " in what]
    keys_kept = [key for key, one in zip(keys, of_family, strict=True) if one == FAMILY_DEFAULT]
    assert {chr(key[0]) for key in keys_kept} == PREFIXES
    assert {key[1:].decode() for key in keys_kept if key[:1] == b"m" and b"/" not in key} == NAMES
    assert {key[1:5] for key in keys_kept if key[:1] == b"m" and b"/" in key} == {b"pass"}


def test_rows_hold_each_state_and_column(said):
    rows = [row for one in said.values() for row in one["rows"]]
    assert {row["state"] for row in rows} == {0, 1, 2}
    assert None in {row["payload"] for row in rows}
    for name in rows[0]:
        assert len({str(row[name]) for row in rows}) > 1


@BOTH
def test_writer_finds_all_as_it_was_written(root, said, name):
    with open_later(root, name) as stream:
        assert said_by(stream) == said[name]
        assert stream.verify().is_clean


@BOTH
def test_reader_finds_all_but_what_the_killed_process_had_not_finished(root, said, name):
    with StreamReader.open(root, name) as reader:
        rows = said_by(reader)["rows"]
    later = [row for row in said[name]["rows"] if row not in rows]
    assert [row for row in said[name]["rows"] if row in rows] == rows
    assert len(later) == {DEVICES: LANDING_ROWS + STAGED_ROWS, READINGS: 2}[name]


def test_lost_segment_is_told_with_its_name(root):
    with open_later(root, DEVICES) as stream:
        (segment,) = root.rglob("segments/00000001")
        segment.unlink()
        problems = [problem.message for problem in stream.verify().problems]
        assert any("a segment is missing" in one and str(segment) in one for one in problems)


def test_heads_are_in_force(root, said):
    normal = [row for row in said[DEVICES]["rows"] if row["state"] == 0]
    largest = max(row["primary"] for row in normal if row["secondary"] == 2)
    with open_later(root, DEVICES) as stream:
        for primary in (largest - 6, largest + 1):
            stream.append(primary, 2, b"")
        stream.commit()
        assert [row["state"] for row in said_by(stream)["rows"] if row["payload"] == ""] == [1, 0]


def test_transactions_are_known_and_do_not_land_again(root, said):
    with open_later(root, DEVICES) as stream:
        assert [stream.transaction(name, 3).is_replay for name in ("named 0", LANDING)] == [
            True
        ] * 2
        area = StagingArea.open(root, DEVICES)
        for transaction in (*SERIES, STAGED):
            stage(area, transaction, 7_000 if transaction == STAGED else 6_000)
        stream.finish_transactions()
        assert len(said_by(stream)["rows"]) == len(said[DEVICES]["rows"])


@BOTH
def test_store_goes_on_where_it_stopped(root, said, name):
    with open_later(root, name) as stream:
        if name == DEVICES:
            stream.append(1, 1, b"")
        else:
            stream.skip(0, 1700)
        stream.seal()
        stream.compact()
        stream.trim()
    with open_later(root, name) as stream:
        rows = said_by(stream)["rows"]
        assert Counter(map(str, said[name]["rows"])) - Counter(map(str, rows)) == Counter()
        assert stream.verify().is_clean


def test_streams_are_listed_and_stay_small(root):
    assert list_streams(root) == [DEVICES, READINGS]
    assert sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) < BYTES_MAX
