"""A root that may only be read: what a reader lacks is told in one line, and the code says mend."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from storage_core import Stream, StreamOptions

# Root writes where nobody may, unless this right is taken from it.
WITHOUT_ROOT_RIGHTS = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path, "orders", StreamOptions(shards=1)) as stream:
        stream.append(1, 1, b"x")
    files = [tmp_path, *tmp_path.rglob("*")]
    for path in files:
        path.chmod(path.stat().st_mode & ~0o222)
    yield tmp_path
    for path in files:
        path.chmod(path.stat().st_mode | 0o200)


def run(verb, root, *options):
    command = [sys.executable, "-m", "connectors.cli.main", verb, str(root), "orders", *options]
    return subprocess.run(
        [*WITHOUT_ROOT_RIGHTS, *command],
        cwd=Path(__file__).parents[4],
        check=False,
        capture_output=True,
        text=True,
    )


def test_root_that_may_only_be_read_is_told_in_one_line_with_what_to_do(root):
    ran = run("read", root)
    assert (ran.returncode, ran.stdout) == (EXIT_USAGE, "")
    assert "a reader must be allowed to write rocksdict-config.json" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("alter", "retention_hours=5"), ("drop", "--execute"), ("drop", "--execute", "--remove")],
)
def test_what_may_not_be_written_is_nothing_that_passes(root, words):
    verb, *options = words
    ran = run(verb, root, *options)
    assert (ran.returncode, ran.stdout) == (EXIT_USAGE, "")
    assert "give this process the right to write here" in ran.stderr
    assert ran.stderr.count("\n") == 1
