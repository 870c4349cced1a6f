"""A root that may only be read: what a reader lacks is told in one line, and the code says mend."""

import json
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


COMMANDS = {
    "read": ("read",),
    "alter": ("alter", "retention_hours=5"),
    "drop": ("drop", "--execute"),
    "remove": ("drop", "--execute", "--remove"),
}
# One process for all: each would import for half a second.
PROGRAM = """
import contextlib, io, json, sys
from connectors.cli.main import outcome

root, commands = json.loads(sys.argv[1])
for name, (command, *options) in commands.items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = outcome([command, root, "orders", *options])
    print(json.dumps([name, [code, out.getvalue(), err.getvalue()]]))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each command ended with and printed, over a stream that may only be read."""
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, "orders", StreamOptions(shards=1)) as stream:
        stream.append(1, 1, b"x")
    files = [root, *root.rglob("*")]
    for path in files:
        path.chmod(path.stat().st_mode & ~0o222)
    command = [sys.executable, "-c", PROGRAM, json.dumps([str(root), COMMANDS])]
    ran = subprocess.run(
        [*WITHOUT_ROOT_RIGHTS, *command],
        cwd=Path(__file__).parents[4],
        check=False,
        capture_output=True,
        text=True,
    )
    for path in files:
        path.chmod(path.stat().st_mode | 0o200)
    assert ran.returncode == 0, ran.stderr
    return dict(map(json.loads, ran.stdout.splitlines()))


def expect(result, *words):
    """Expect a refusal in one line that has these words."""
    code, out, err = result
    assert (code, out) == (EXIT_USAGE, "")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_root_that_may_only_be_read_is_told_in_one_line_with_what_to_do(results):
    expect(results["read"], "a reader must be allowed to write rocksdict-config.json")


@pytest.mark.parametrize("command", ["alter", "drop", "remove"])
def test_what_may_not_be_written_is_nothing_that_passes(results, command):
    expect(results[command], "give this process the right to write here")
