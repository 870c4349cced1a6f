"""The programs of examples/: what their page says that each prints, and whether it does.

A row of the table in examples/README.md has the program, what it shows, and lines that it prints.
Each program runs whole: in the process of the tests (`run_here`), which has loaded what it needs
and for Spark's has a session, or as people run it (`run_as_people_do`).
"""

import os
import re
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.tidy.tree import ROOT
from tests.waiting import WAIT_MAX_S

EXAMPLES = ROOT / "examples"
PLAIN = ("export.py", "follow.py", "keys.py", "lake.py", "read.py", "sql.py", "transaction.py")
OF_SPARK = ("roll_up.py", "spark_sink.py", "spark_source.py")
OF_KAFKA = ("dead_letters.py", "ingest_kafka.py", "metrics.py")
_ROW = re.compile(r"^\| \[(\w+\.py)\]\(\1\) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


def lines_promised() -> dict[str, list[str]]:
    """Return, by program, the lines that the page says it prints."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    return {program: _CODE.findall(lines) for program, lines in _ROW.findall(page)}


def run_here(program: str) -> None:
    """Run a program in this process."""
    runpy.run_path(os.fspath(EXAMPLES / program), run_name="__main__")


def run_as_people_do(program: str, place: Path, **variables: str) -> str:
    """Run a program as a command, with `shardlog` on its PATH; return what it prints."""
    path = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        [sys.executable, f"examples/{program}"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "TMPDIR": os.fspath(place), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, complaint = process.communicate(timeout=WAIT_MAX_S)
        finally:
            # What it has started ends with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, complaint
    return printed


def expect(program: str, printed: str) -> None:
    """Compare what a program printed with what the page promises."""
    promised = lines_promised()[program]
    missing = [line for line in promised if line not in printed.splitlines()]
    assert promised, f"examples/README.md promises nothing of {program}"
    assert not missing, f"{program} did not print {missing}, but:\n{printed}"
