"""What is wrong has one exit code, whichever command meets it, and one line that says it.

Each case is a stream with something wrong, over which every command that reads is run. One process
runs them all, without the rights of root, since each would import for half a second.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.cli import exit_codes
from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_USAGE
from storage_core import Stream, StreamOptions
from streaming_jobs.jobs.spark_words import EXIT_CODES
from tests.unit.connectors.cli.test_read_only import WITHOUT_ROOT_RIGHTS

REPOSITORY = Path(__file__).parents[4]
NAME = "orders"
PROGRAM = """
import contextlib, io, json, sys
from connectors.cli.main import outcome

for case, command, arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = outcome(arguments)
    print(json.dumps([case, command, code, out.getvalue(), err.getvalue()]))
"""
# What follows the root and the stream.
COMMANDS = {
    "read": (),
    "tail": (),
    "latest": (),
    "sql": (),
    "status": (),
    "parts": (),
    "export": ("--output", "{place}/exported"),
    "verify": (),
    "seal": ("--rebuild",),
    "trim": (),
}
WRITERS = ("verify", "seal", "trim")


def part_of(stream):
    (part,) = stream.glob("shard-0000/sealed/*.rows")
    return part


def without_right(path):
    path.chmod(0)


def garbled(path, place):
    data = bytearray(path.read_bytes())
    data[place * len(data) // 100] ^= 1
    path.write_bytes(data)


ALL = dict.fromkeys(COMMANDS, EXIT_USAGE)
# What is wrong; whether blocks were trimmed; what commands end with.
RIGHTS = {
    "no right to a part": (
        lambda at: without_right(part_of(at)),
        True,
        ALL | {"parts": 0, "trim": 0},
    ),
    "no right to a part that the log has too": (
        lambda at: without_right(part_of(at)),
        False,
        dict.fromkeys(COMMANDS, 0) | dict.fromkeys((*WRITERS, "sql"), EXIT_USAGE),
    ),
    "no right to parts": (
        lambda at: without_right(at / "shard-0000" / "sealed"),
        True,
        ALL | {"parts": 0, "trim": 0},
    ),
    "no right to a store": (lambda at: without_right(at / "shard-0000" / "db"), False, ALL),
    "no right to a marker": (
        lambda at: without_right(next((at / "shard-0000").glob("marker*"))),
        False,
        ALL,
    ),
    "no right to a shard": (lambda at: without_right(at / "shard-0000"), False, ALL),
    "no right to a stream": (without_right, False, ALL),
    "no right to a root": (lambda at: without_right(at.parent), False, ALL),
    "no such root": (lambda at: at.parent.rename(at.parent.with_suffix(".gone")), False, ALL),
}
# As above; of commands that read what is damaged, each meets one: they look again for a while.
DAMAGE = {
    "a part is gone": (
        lambda at: part_of(at).unlink(),
        True,
        {"read": 5, "verify": 5, "seal": 5, "parts": 0, "trim": 0},
    ),
    "a part was cut": (
        lambda at: part_of(at).write_bytes(b"PAR1"),
        True,
        {"latest": 5, "sql": 5, "verify": 5, "seal": 5, "parts": 0, "trim": 0},
    ),
    "a part's foot differs": (
        lambda at: garbled(part_of(at), 80),
        True,
        {"export": 5, "sql": 5, "verify": 5, "seal": 5, "parts": 0, "trim": 0},
    ),
    "a part that the log has too differs": (
        lambda at: garbled(part_of(at), 80),
        False,
        dict.fromkeys(COMMANDS, 0) | dict.fromkeys(("verify", "trim", "sql"), EXIT_DAMAGE),
    ),
    "a part's rows differ": (
        lambda at: garbled(part_of(at), 30),
        False,
        dict.fromkeys(COMMANDS, 0) | dict.fromkeys(("verify", "trim", "sql"), EXIT_DAMAGE),
    ),
}


def arguments_of(command, root, place):
    if command == "sql":
        return ["sql", str(root), f"SELECT count(*) AS n, max(payload) AS most FROM {NAME}"]
    rest = [one.format(place=place) for one in COMMANDS[command]]
    return [command, str(root), NAME, *rest]


def made(root, *, trimmed):
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        for number in range(2000):
            stream.append(1_700_000_000_000 + number, number % 7, b"v%d" % (number * 7919 % 997))
        stream.commit()
        stream.seal()
        if trimmed:
            stream.trim()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each command ended with and printed, in each case."""
    base = tmp_path_factory.mktemp("roots")
    for trimmed in (False, True):
        made(base / f"whole {trimmed}", trimmed=trimmed)
    runs = []
    for number, (case, (break_it, trimmed, codes)) in enumerate((RIGHTS | DAMAGE).items()):
        for command in codes:
            # Those that write, or note a loss, are not to change what the next one meets.
            place = base / f"{number} {command if command in WRITERS else ''}"
            root = place / "root"
            if not place.exists():
                shutil.copytree(base / f"whole {trimmed}", root)
                break_it(root / NAME)
            runs.append((case, command, arguments_of(command, root, place)))
    program = [sys.executable, "-c", PROGRAM, json.dumps(runs)]
    ran = subprocess.run(
        [*WITHOUT_ROOT_RIGHTS, *program],
        cwd=REPOSITORY,
        check=False,
        capture_output=True,
        text=True,
    )
    subprocess.run(["chmod", "-R", "u+rwX", base], check=True)
    assert ran.returncode == 0, ran.stderr
    by_case = {}
    for line in ran.stdout.splitlines():
        case, command, code, out, err = json.loads(line)
        by_case[case, command] = (code, out, err)
    return by_case


def expect(results, case, codes, words):
    """Expect the code of each command, and one line that has these words where it is a refusal."""
    wrong = {}
    for command, code in codes.items():
        actual, out, err = results[case, command]
        is_told = err.count("\n") == 1 and out == "" and re.search(words, err)
        # What verify finds it tells in a table.
        tells_line = code != 0 and not (command == "verify" and code == EXIT_DAMAGE)
        if actual != code or (tells_line and not is_told):
            wrong[command] = (actual, code, out, err)
    assert wrong == {}


@pytest.mark.parametrize("case", RIGHTS)
def test_rights_and_roots_that_lack_are_wrong_usage_by_whichever_command(results, case):
    expect(results, case, RIGHTS[case][2], r"right|denied|not readable|not a shardlog root")


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_damage_by_whichever_command_and_names_part_and_range(results, case):
    expect(results, case, DAMAGE[case][2], r"addresses \[\d+, 2000\).*part-0000000000")


def test_verify_says_in_its_table_which_part_is_damaged(results):
    for case in DAMAGE:
        code, out, err = results[case, "verify"]
        assert (code, err) == (EXIT_DAMAGE, "")
        assert "part-0000000000.rows" in out


def test_every_code_is_in_the_table_of_the_documents():
    codes = {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_")}
    text = (REPOSITORY / "docs" / "OPERATIONS.md").read_text()
    table = text.split("### Exit codes")[1].split("\n### ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == codes | {0}


def test_jobs_of_spark_end_with_the_same_codes():
    for kind, code in EXIT_CODES:
        assert exit_codes.exit_code_for(kind("gone")) == code
