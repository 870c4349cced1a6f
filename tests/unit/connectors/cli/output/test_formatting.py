"""How counts are said: one of a thing is no several."""

import re
from pathlib import Path

import pytest

from connectors.cli.output.formatting import counted, format_ranges
from storage_core.platform.disk_usage import disk_bytes

CLI = Path(__file__).parents[5] / "connectors" / "cli"
# A value of an f-string before one of these, but for a constant, which is large.
BARE = re.compile(
    r"\{(?![A-Z_]+\})[^{}]*\} (rows|parts|blocks|bytes|records|files|shards|streams|problems)\b"
)
# Of lines that scripts read, and of what can be one only as a fraction.
MEANT = {
    "commands/tiering.py": ["{size / report.rows_sealed:.1f} bytes"],
    "commands/produce.py": ["{self._bytes} bytes", "{done / max(seconds, 1e-6):.0f} records"],
}


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")]
)
def test_one_is_no_several(count, said):
    assert counted(count, "row") == said


def test_neighbouring_ranges_are_one():
    assert format_ranges([(9, 12), (0, 4), (4, 7)]) == "[0,7) [9,12)"
    assert format_ranges([]) == ""


def test_no_command_counts_by_itself():
    bare = {
        path.relative_to(CLI).as_posix(): [one.group() for one in BARE.finditer(path.read_text())]
        for path in sorted(CLI.rglob("*.py"))
    }
    assert {name: some for name, some in bare.items() if some} == MEANT


def test_file_of_two_names_takes_its_bytes_once(tmp_path):
    (tmp_path / "one").write_bytes(bytes(8192))
    before = disk_bytes(tmp_path)
    (tmp_path / "other").hardlink_to(tmp_path / "one")
    assert disk_bytes(tmp_path) == before > 0
