"""A root that may only be read: whoever reads finds all of it, whoever would write is told so.

It is one without rights to write, as of a copy or another user's, and one on a read-only mount.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from storage_core import Stream, StreamOptions

# Root writes where nobody may, unless this right is taken from it.
WITHOUT_ROOT_RIGHTS = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)
READS = {
    "read": ["read", "ROOT", "orders", "--id", "1"],
    "tail": ["tail", "ROOT", "orders", "--shard", "0"],
    "latest": ["latest", "ROOT", "orders", "--id", "1"],
    "status": ["status", "ROOT", "--json"],
    "streams": ["streams", "ROOT"],
    "parts": ["parts", "ROOT", "orders", "--json"],
    "sql": ["sql", "ROOT", "SELECT * FROM orders ORDER BY address"],
    "export": ["export", "ROOT", "orders", "--output", "ELSEWHERE"],
    "dlq list": ["dlq", "list", "ROOT"],
    "dlq show": ["dlq", "show", "ROOT", "orders"],
    "group describe": ["group", "describe", "ROOT", "orders", "--json"],
}
VERIFIES = {"verify": ["verify", "ROOT", "orders"]}
WRITES = {
    "alter": ["alter", "ROOT", "orders", "retention_hours=5"],
    "drop": ["drop", "ROOT", "orders", "--execute"],
    "remove": ["drop", "ROOT", "orders", "--execute", "--remove"],
    "seal": ["seal", "ROOT", "orders"],
    "pause": ["group", "pause", "ROOT", "orders"],
}
# One process for all: each would import for half a second.
PROGRAM = """
import contextlib, io, json, sys
from connectors.cli.main import outcome

root, elsewhere, commands = json.loads(sys.argv[1])
for name, words in commands.items():
    arguments = [{"ROOT": root, "ELSEWHERE": elsewhere}.get(word, word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = outcome(arguments)
    said = [text.getvalue().replace(root, "ROOT").replace(elsewhere, "") for text in (out, err)]
    print(json.dumps([name, [code, *said]]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Rows in parts, rows that are in none, and rows that came late."""
    place = tmp_path_factory.mktemp("root") / "root"
    with Stream.create(place, "orders", StreamOptions(shards=1)) as stream:
        for primary in (1, 2, 5, 3):
            stream.append(primary, 1, b"x")
        stream.commit()
        stream.seal()
        stream.append(9, 1, b"y")
    return place


def run(root, elsewhere, commands, prefix=()):
    """Run commands in a process of their own; return what each ended with and printed."""
    words = json.dumps([str(root), str(elsewhere), commands])
    ran = subprocess.run(
        [*prefix, sys.executable, "-c", PROGRAM, words],
        cwd=Path(__file__).parents[4],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    results = dict(map(json.loads, ran.stdout.splitlines()))
    (shard,) = json.loads(results["status"][1])
    # A copy has other blocks on disk, and is asked at another time.
    results["status"][1] = {**shard, "bytes": 0, "age_s": 0}
    return results


@pytest.fixture(scope="module")
def expected(root, tmp_path_factory):
    """What is read where all may be written."""
    copy = tmp_path_factory.mktemp("copy") / "root"
    shutil.copytree(root, copy)
    return run(copy, copy.with_name("export"), READS | VERIFIES)


@pytest.fixture(scope="module")
def without_rights(root, tmp_path_factory):
    """What each command ends with over files that may only be read."""
    copy = tmp_path_factory.mktemp("guarded") / "root"
    shutil.copytree(root, copy)
    files = [copy, *copy.rglob("*")]
    for path in files:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        return run(copy, copy.with_name("export"), READS | VERIFIES | WRITES, WITHOUT_ROOT_RIGHTS)
    finally:
        for path in files:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.fixture(scope="module")
def mounted(root, tmp_path_factory):
    """What each command ends with over a read-only mount."""
    place = tmp_path_factory.mktemp("mounted")
    (place / "root").mkdir()
    script = f'mount --bind -o ro "{root}" "{place}/root" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    return run(place / "root", place / "export", READS | VERIFIES | WRITES, prefix)


@pytest.mark.parametrize("command", READS)
def test_what_reads_finds_the_same_without_rights_to_write(without_rights, expected, command):
    assert expected[command][0] in (0, EXIT_UNAVAILABLE)
    assert without_rights[command] == expected[command]


@pytest.mark.parametrize("command", READS)
def test_what_reads_finds_the_same_on_a_read_only_mount(mounted, expected, command):
    assert mounted[command] == expected[command]


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("place", ["without_rights", "mounted"])
def test_what_writes_is_refused_in_one_line(request, place, command):
    code, out, err = request.getfixturevalue(place)[command]
    assert (code, out, err.count("\n")) == (EXIT_USAGE, "", 1)
    assert "give this process the right to write here" in err


@pytest.mark.parametrize("place", ["without_rights", "mounted"])
def test_verify_reads_what_it_may_not_lock_and_says_what_it_cannot_prove(request, expected, place):
    code, out, err = request.getfixturevalue(place)["verify"]
    assert (code, err) == (expected["verify"][0], "") == (0, "")
    lines = out.splitlines()
    # The blocks of an open writer are those that are on disk once it is closed.
    assert lines[:2] == expected["verify"][1].splitlines()[:2]
    assert "it was read without its writer's lock" in lines[-1]
