"""`shardlog serve` as a process: its first line, its end, and what it refuses at the start."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from storage_core import root_id
from tests.log.serve.served import ANSWER_MAX_S
from tests.unit.connectors.command import runner

_PROGRAM = [str(Path(sys.executable).with_name("shardlog")), "serve"]
_LINE = re.compile(r"listening on (\S+), root (\S+) \(id ([0-9a-f]{32})\), reading only\n")


@pytest.fixture
def shardlog(capsys):
    return runner(capsys)


@contextmanager
def started(root: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command; yield the process and its first line."""
    process = subprocess.Popen(
        [*_PROGRAM, str(root), "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_first_line_says_the_address_and_a_signal_ends_it_cleanly(bench) -> None:
    bench.keep([1, 2])
    with started(bench.root) as (process, line):
        first_line = _LINE.fullmatch(line)
        assert first_line is not None
        url, root, id_ = first_line.groups()
        assert (root, id_) == (str(bench.root), root_id(bench.root))
        taken = url.rpartition("/")[2]
        command = [*_PROGRAM, str(bench.root), "--listen", taken]
        second = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_MAX_S, check=False
        )
        assert (second.returncode, second.stdout) == (3, "")
        assert "cannot be had" in second.stderr
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=ANSWER_MAX_S)
        assert (process.returncode, out, err) == (0, "", "")


def test_page_may_be_left_out(bench) -> None:
    with started(bench.root, "--no-page") as (_, line):
        first_line = _LINE.fullmatch(line)
        assert first_line is not None
        connection = HTTPConnection(first_line[1].rpartition("/")[2], timeout=ANSWER_MAX_S)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
        connection.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--listen", "0.0.0.0:0"), "--read-token-file"),
        (("--listen", "nowhere.invalid:0", "--anonymous"), "no address of this machine"),
        (("--listen", "x"), "not an address"),
        (("--tls-cert", "gone.pem"), "--tls-key"),
        (("--read-token-file", "gone"), "gone"),
        (("--answers-max", "0"), "answers-max"),
    ],
)
def test_what_cannot_work_is_one_line(bench, shardlog, options, named) -> None:
    ran = shardlog("serve", bench.root, *options)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert named in ran.err


def test_directory_that_is_no_root_is_refused(tmp_path, shardlog) -> None:
    ran = shardlog("serve", tmp_path, "--listen", "127.0.0.1:0")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "not a shardlog root" in ran.err


def test_server_that_takes_writes_makes_its_root(tmp_path) -> None:
    root = tmp_path / "not" / "there"
    with started(root, "--writable") as (process, line):
        assert f"root {root} (id {root_id(root)}), everybody on this machine may write" in line
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=ANSWER_MAX_S)
    assert err == f"shardlog: {root} was no root yet: it is an empty one now\n"


def test_directory_of_other_files_is_never_made_a_root(tmp_path, shardlog) -> None:
    (tmp_path / "letter.txt").touch()
    ran = shardlog("serve", tmp_path, "--listen", "127.0.0.1:0", "--writable")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "not a shardlog root" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
