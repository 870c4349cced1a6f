"""The drill of docs/LAKE.md runs: a worker and its disk are lost, and another stores all again."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import IO

from tests.broker.support.lab import Lab
from tests.tidy.test_readme import fenced, page, section
from tests.waiting import WAIT_MAX_S

# It starts a dozen commands one after the other, on a machine that may be busy.
DRILL_MAX_S = 8 * WAIT_MAX_S
BROKER = 'eval "$(shardlog dev up)"\n'


@contextmanager
def running(script: str, folder: Path, bootstrap: str, output: IO[str]) -> Iterator[Popen[str]]:
    """Run a script of the shell in a folder; what is left of what it started is killed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = Popen(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "KAFKA_BOOTSTRAP": bootstrap},
        stdout=output,
        stderr=STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_drill_of_the_page_ends_with_all_rows_and_a_table_without_a_fault(
    lab: Lab, tmp_path: Path
) -> None:
    drill = section(page("docs/LAKE.md"), "Disaster drill")
    (settings,), (commands,) = fenced(drill, "toml"), fenced(drill, "sh")
    topic = lab.topic()
    assert commands.startswith(BROKER), "the test has a broker of its own"

    def of_this_test(text: str) -> str:
        renamed = re.sub(r"\btelemetry\b", topic.name, text)
        return renamed.replace("/tmp/drill", os.fspath(tmp_path))  # noqa: S108 - the page's place

    (tmp_path / "drill.toml").write_text(of_this_test(settings))
    script = of_this_test(commands.removeprefix(BROKER))
    with (
        (tmp_path / "output").open("w+") as output,
        running(script, tmp_path, lab.bootstrap, output) as process,
    ):
        code = process.wait(DRILL_MAX_S)
        output.seek(0)
        assert code == 0, output.read()
