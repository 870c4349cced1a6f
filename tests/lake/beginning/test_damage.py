"""Goal: a file of a table that was cut, or lost its end, or had a bit flipped, is always told.

Method: an owner publishes rows of every kind; one file in the store is damaged as a disk does it.
The owner's check must name it. Whoever begins from the table, or reads what began before, is told,
or shows the rows that were written: never others, never fewer in silence.
"""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from storage_core import CorruptionError
from storage_core.lake import begin_from_lake, check_lake
from storage_core.lake.beginning.table_parts import read_footers
from storage_core.lake.file_store import FileStore
from tests.lake.beginning.beginning_lab import NAME, SHARD, Root
from tests.log.workbench import rows_of
from tests.thin import rounds

ROUNDS: Final = rounds("SHARDLOG_FAULT_LAKE", few=2, many=30)
_SECTOR: Final = 512
COLUMNS: Final = ["address", "primary", "secondary", "version", "state", "payload", "schema_id"]


def _flip(data: bytearray, random: Random) -> bytearray:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return data


def _cut(data: bytearray, random: Random) -> bytearray:
    return data[: random.randrange(len(data))]


def _lose_end(data: bytearray, random: Random) -> bytearray:
    """Let the file have its size, and zeros from some sector on: its end was never written."""
    begin = random.randrange(0, len(data), _SECTOR)
    data[begin:] = bytes(len(data) - begin)
    return data


DAMAGES: Final[dict[str, Callable[[bytearray, Random], bytearray]]] = {
    "flipped": _flip,
    "cut": _cut,
    "without its end": _lose_end,
}


def rows_in(root: Root) -> list[dict[str, Any]]:
    """Return all rows of a root by address, once by all that is there and once by id."""
    with root.reader() as reader:
        by_address = rows_of(reader.tail(SHARD, columns=COLUMNS))
        by_id = reader.read(columns=COLUMNS).to_pylist()
    assert sorted(by_id, key=lambda row: row["address"]) == by_address
    return by_address


def begin(root: Root) -> None:
    begin_from_lake(root.root, NAME, [SHARD])


def rows_or_refusal(root: Root, *, is_new: bool) -> list[dict[str, Any]] | str:
    """Return the rows of a root, or the name of the file that it refuses."""
    try:
        if is_new:
            begin(root)
        return rows_in(root)
    except CorruptionError as error:
        (path,) = {*re.findall(r"[^ /]*\.parquet", str(error))}
        return str(path)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_damaged_file_of_a_table_is_told_and_no_row_of_it(lab, damage, seed):
    random = Random(f"{damage} {seed}")
    lab.published(40, 40)
    began_before = lab.new_root()
    begin(began_before)
    file = random.choice(lab.files())
    written = file.read_bytes()
    damaged = bytes(DAMAGES[damage](bytearray(written), random))
    assert damaged != written
    file.write_bytes(damaged)
    problems = check_lake(lab.owner.root, NAME, read=True).problems
    assert file.name in {Path(problem.file or "").name for problem in problems}
    expected = rows_in(lab.witness)
    for root in (began_before, lab.new_root()):
        assert rows_or_refusal(root, is_new=root is not began_before) in (expected, file.name)


def test_no_byte_of_a_file_s_end_is_taken_for_another(lab):
    lab.published(40)
    file = lab.files()[0]
    table = lab.target.directory
    written = file.read_bytes()
    path = str(file.relative_to(table))
    (footer,) = read_footers(FileStore(lab.target), {path: len(written)})
    for place in range(len(written) - footer.proof.footer_bytes, len(written), 13):
        damaged = bytearray(written)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=file.name):
            read_footers(FileStore(lab.target), {path: len(written)})


def test_damaged_run_is_told_and_heads_are_made_of_the_rows(lab):
    lab.published(50, 50)
    assert lab.target.directory is not None
    run = min((lab.target.directory / "_shardlog" / f"shard={SHARD}").iterdir())
    run.write_bytes(_flip(bytearray(run.read_bytes()), Random(3)))
    heir = lab.new_root()
    begun = lab.take_over(heir)
    assert [Path(path).name for path in begun.damaged_runs] == [run.name]
    lab.check_rows(heir)
    lab.append(80)
    lab.check_rows(heir)
