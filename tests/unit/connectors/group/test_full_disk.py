"""A disk that is full: what is quarantined is told all the same, and may be tried again.

Each scenario runs in a process of its own, on a file system in memory that only it sees.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'
PROGRAM = """
import json, sys
from contextlib import suppress
from pathlib import Path
from connectors.group import QuarantineNote, QuarantineNotes, RetryRequests
from connectors.kafka import Partition

root = Path(sys.argv[1])
notes, requests = QuarantineNotes(root), RetryRequests(root)
notes.prepare()
requests.prepare()
notes.write(QuarantineNote("orders", 0, 1, "damage", "noted before"))
with suppress(OSError), (root / "filler").open("wb", buffering=0) as filler:
    while True:
        filler.write(bytes(1024))
said = []
def tell():
    said.append([[note.shard, note.kind, note.reason] for note in notes.read()])
refusals = [notes.write(QuarantineNote("orders", n, 2, "foreign", "why"), 7) for n in (0, 1)]
said.append([refusal and refusal.strerror for refusal in refusals])
said.append([notes.tried_ns(Partition("orders", n)) for n in (0, 1)])
tell()
requests.write(Partition("orders", 1))
said.append(requests.taken([Partition("orders", 1)], 0) == [Partition("orders", 1)])
(root / "filler").unlink()
said.append(notes.write(QuarantineNote("orders", 1, 2, "foreign", "why")))
tell()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the program saw on the full disk."""
    root = tmp_path_factory.mktemp("full")
    prefix = ("unshare", "--mount", "sh", "-c", MOUNT, "sh", str(root))
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    ran = subprocess.run(
        [*prefix, sys.executable, "-c", PROGRAM, str(root)],
        cwd=Path(__file__).parents[4],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_full_disk_has_an_empty_note_that_says_so_and_keeps_one_that_was_there(said):
    full = "No space left on device"
    unwritten = "the disk has no room for the note that says why; the worker's log has it"
    assert said[:3] == [
        [full, full],
        [7, 7],
        [[0, "damage", "noted before"], [1, "write_failed", unwritten]],
    ]


def test_retry_is_asked_for_on_a_full_disk(said):
    assert said[3] is True


def test_note_is_whole_once_there_is_room(said):
    assert said[4:] == [None, [[0, "damage", "noted before"], [1, "foreign", "why"]]]
