"""The first moments of the command: an interrupt in them leaves no traceback."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage_core import Stream, StreamOptions
from tests.thin import covering, thinned
from tests.waiting import WAIT_MAX_S

INTERRUPTED_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from connectors.cli.entry import run
run()
"""

COMMAND = "from connectors.cli.entry import run; run()"


def run_entry(program, *arguments, environment=None):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=WAIT_MAX_S,
        check=False,
        env=environment,
    )


@thinned(
    "name, words",
    [
        ("connectors.cli.main", "--help"),
        ("connectors.cli.parsers.status", "status --help"),
        ("pyarrow.lib", "status /nowhere"),
        ("confluent_kafka.cimpl", "dlq replay letters"),
        ("storage_core.export.exporting", "export /nowhere orders --to /nowhere"),
        ("storage_core.sql.streams", "sql /nowhere query"),
    ],
    count=3,
)
def test_interrupt_while_the_command_is_imported_ends_it_without_a_word(name, words):
    ran = run_entry(INTERRUPTED_AT.format(name=name), *words.split())
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


LACKING = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Lacking())
from connectors.cli.entry import run
run()
"""


@thinned(
    "name, words, extra",
    [
        ("typer", "--help", "cli"),
        ("fastavro", "read /nowhere stream", "store"),
        ("confluent_kafka", "dlq replay letters", "kafka"),
    ],
    count=2,
)
def test_package_that_is_not_installed_is_told_in_one_line(name, words, extra):
    ran = run_entry(LACKING.format(name=name), *words.split())
    said = f"shardlog: {name} is missing: pip install 'shardlog[{extra}]'\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", said)


@pytest.mark.parametrize("name", ["rocksdict", "xxhash"])
def test_store_that_is_not_installed_is_told_where_a_stream_is_read_by_path(name, tmp_path):
    with Stream.create(tmp_path, "trips") as stream:
        stream.append(1, 1, b"x")
    ran = run_entry(LACKING.format(name=name), "read", str(tmp_path), "trips")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.endswith(f"{name} is missing: pip install 'shardlog[store]'\n")


def test_module_of_ours_that_is_missing_is_a_bug_with_its_traceback():
    ran = run_entry(LACKING.format(name="connectors.cli.parsers.status"), "status", "/nowhere")
    assert ran.returncode == 1
    assert ran.stderr.startswith("Traceback")


SIGNALLED_AT = """
import os, signal, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Signalling())
from connectors.cli.entry import run
run()
"""
STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
# Imported by the entry; with what the command works with; while its settings are read.
MOMENTS = ["connectors.cli.main", "confluent_kafka.cimpl", "structlog"]


@thinned("name", MOMENTS, count=1)
def test_worker_that_starts_is_not_ended_by_who_asks_for_progress(name):
    ran = run_entry(SIGNALLED_AT.format(name=name, signal="SIGUSR1"), "worker", "--set=root=")
    assert ran.returncode == 2
    assert "root: is empty" in ran.stderr


@covering(name=MOMENTS, number=STOPS)
def test_worker_that_is_stopped_while_it_starts_ends_well_and_without_a_word(name, number):
    ran = run_entry(SIGNALLED_AT.format(name=name, signal=number.name), "worker", "--set=root=")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


SIGNALLED_LAST = """
import os, signal, sys

class Last:
    def __del__(self, kill=os.kill, own=os.getpid(), number=signal.{signal}):
        kill(own, number)

# Goes once the interpreter has let go of all handlers.
sys.modules["last"] = Last()
from connectors.cli.entry import run
run()
"""


@thinned("number", STOPS, count=1)
def test_worker_that_is_told_to_stop_as_it_ends_keeps_its_exit_code(number):
    ran = run_entry(SIGNALLED_LAST.format(signal=number.name), "worker", "--set=root=")
    assert ran.returncode == 2
    assert "root: is empty" in ran.stderr


INTERRUPTED_AT_FILE = """
import os, signal, sys

def interrupt(event, about):
    if event == "open" and about[0] == {path!r}:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
from connectors.cli.entry import run
run()
"""


def test_interrupt_while_a_worker_reads_its_settings_ends_it_well_and_without_a_word(tmp_path):
    path = str(tmp_path / "shardlog.toml")
    ran = run_entry(INTERRUPTED_AT_FILE.format(path=path), "worker", "--config", path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_check_that_is_interrupted_has_not_checked(tmp_path):
    path = str(tmp_path / "shardlog.toml")
    program = INTERRUPTED_AT_FILE.format(path=path)
    ran = run_entry(program, "worker", "--check", "--config", path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@thinned("closed", [[1], [2], [0, 1, 2]], count=1)
def test_command_that_is_started_without_standard_descriptors_fills_them(closed, tmp_path):
    program = f"""
import os, sys
for each in {closed}:
    os.close(each)
    setattr(sys, ["stdin", "stdout", "stderr"][each], None)
from connectors.cli.entry import run
try:
    run()
except SystemExit as end:
    filled = [os.readlink(f"/proc/self/fd/{{each}}") for each in {closed}]
    with open({os.fspath(tmp_path / "seen")!r}, "w") as seen:
        print(end.code, *filled, file=seen)
"""
    assert run_entry(program, "parts", "/nowhere", "nothing").returncode == 0
    assert (tmp_path / "seen").read_text().split() == ["2", *[os.devnull] * len(closed)]


def run_into(words, output):
    """Run the command with this as its standard output; return its exit code, and what it says."""
    program = [sys.executable, "-c", "from connectors.cli.entry import run; run()", *words.split()]
    ran = subprocess.run(
        program, stdout=output, stderr=subprocess.PIPE, text=True, timeout=WAIT_MAX_S, check=False
    )
    return ran.returncode, ran.stderr


SHOWING = ["--help", "--version", "status --help", "streams {root}"]


@thinned("words", SHOWING, count=2)
def test_output_that_is_full_is_told_in_one_line_and_by_the_exit_code(words, tmp_path):
    Stream.create(tmp_path, "orders", StreamOptions()).close()
    with Path("/dev/full").open("w") as full:
        code, said = run_into(words.format(root=tmp_path), full)
    assert (code, said) == (
        6,
        "shardlog: writing to standard output failed: no space left on device\n",
    )


@thinned("words", SHOWING, count=2)
def test_output_that_is_closed_is_told_in_one_line_and_by_the_exit_code(words, tmp_path):
    Stream.create(tmp_path, "orders", StreamOptions()).close()
    program = [sys.executable, "-c", "from connectors.cli.entry import run; run()"]
    command = shlex.join([*program, *words.format(root=tmp_path).split()])
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{command} >&-"],
        capture_output=True,
        text=True,
        timeout=WAIT_MAX_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (
        6,
        "shardlog: writing to standard output failed: bad file descriptor\n",
    )


@thinned("words", SHOWING, count=2)
def test_reader_that_has_enough_ends_a_command_without_a_word(words, tmp_path):
    Stream.create(tmp_path, "orders", StreamOptions()).close()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        _, said = run_into(words.format(root=tmp_path), writing)
    finally:
        os.close(writing)
    assert said == ""


def test_bytes_for_a_full_disk_are_a_failure_too(tmp_path):
    Stream.create(tmp_path, "orders", StreamOptions()).close()
    with Path("/dev/full").open("w") as full:
        code, said = run_into(f"read {tmp_path} orders -o arrow", full)
    assert (code, said.count("\n")) == (6, 1)


def test_warnings_of_delta_rs_are_printed_only_if_they_are_asked_for(tmp_path):
    options = StreamOptions(shards=1, lake="s3://bucket/orders")
    Stream.create(tmp_path, "orders", options).close()
    # Without a region it asks the machine, and warns that nobody answers.
    of_store = ("AWS_", "RUST_LOG")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(of_store)},
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
        "AWS_COPY_IF_NOT_EXISTS": "refused",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
    }
    words = ("lake", "status", str(tmp_path), "orders")
    usual = run_entry(COMMAND, *words, environment=environment)
    assert usual.stderr.startswith("shardlog: loading the table")
    assert usual.stderr.count("\n") == 1
    loud = run_entry(COMMAND, *words, environment={**environment, "RUST_LOG": "warn"})
    assert " WARN " in loud.stderr
