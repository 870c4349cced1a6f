"""Goal: damage to any file gives the same rows or a typed error that names a place.

Never fewer rows in silence, never a crash.

Method: one store of known rows, copied for each damage to one of its files (a flipped bit,
zeros, a cut, the file gone, WAL and MANIFEST cut at each record, blocks of an SST exchanged).
Child processes ask each copy everything there is to ask, as writer and as reader; see `judge`.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from storage_core import StreamReader
from tests.children import start_child
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.damage import Damage, FileKind, plan_damages
from tests.faults.support.judge import JudgePlan, judge_damages
from tests.faults.support.known_store import STREAM, BuildPlan, build_known_store, observe
from tests.faults.support.ledger import read_notes
from tests.thin import rounds

KINDS: tuple[FileKind, ...] = get_args(FileKind)
COUNT = max(1, rounds("SHARDLOG_FAULT_DAMAGE", few=18, many=80) // len(KINDS))
CHILD_DAMAGES = 25
CHILD_MAX_S = 600
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


@pytest.fixture(scope="module")
def known_store() -> Iterator[Path]:
    """The root of the known store; in memory if it can be: nothing here is about disks."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        root = Path(folder) / "root"
        start_child(build_known_store, BuildPlan(root)).join()
        yield root


@pytest.fixture(scope="module")
def right(known_store: Path) -> dict[str, str]:
    """What the undamaged store answers; a reader of it says the same as a writer."""
    with StreamReader.open(known_store, STREAM) as reader:
        return observe(reader)


def verdicts(
    known_store: Path, right: dict[str, str], notes: Path, damages: list[Damage]
) -> list[str]:
    """Judge all damages in child processes; return every fault with the damage it belongs to."""
    faults: list[str] = []
    done = 0
    while done < len(damages):
        rest = tuple(damages[done : done + CHILD_DAMAGES])
        part = notes / f"from-{done}"
        child = start_child(judge_damages, JudgePlan(known_store, rest, right, part))
        child.join(CHILD_MAX_S)
        child.kill()
        child.join()
        notes_read = read_notes(part)
        for note in notes_read:
            if "judged" in note:
                faults += [f"{rest[note['judged']]}: {fault}" for fault in note["faults"]]
        judged = sum("judged" in note for note in notes_read)
        if judged < len(rest):
            faults.append(f"{rest[judged]}: the process ended with {child.exitcode}")
            judged += 1
        done += judged
    return faults


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_file_gives_the_same_rows_or_a_typed_error(
    known_store: Path, right: dict[str, str], tmp_path: Path, kind: FileKind
) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        damages = plan_damages(known_store, kind, COUNT, Random(f"{seed}/{kind}"))
        faults = verdicts(known_store, right, tmp_path, damages)
        assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:20])


def no_damage(known_store: Path) -> Damage:
    """Return a cut at the end of a file."""
    path = Path(STREAM) / "stream.json"
    return Damage(path, "cut", offset=(known_store / path).stat().st_size)


def test_undamaged_copy_is_judged_faultless(
    known_store: Path, right: dict[str, str], tmp_path: Path
) -> None:
    assert verdicts(known_store, right, tmp_path, [no_damage(known_store)]) == []


def test_judge_notices_other_rows(known_store: Path, right: dict[str, str], tmp_path: Path) -> None:
    wrong = dict.fromkeys(right, "0 rows")
    assert len(verdicts(known_store, wrong, tmp_path, [no_damage(known_store)])) >= len(right)
