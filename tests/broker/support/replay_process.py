"""A replay in a process of its own, which a test may kill at any moment, or at a certain one."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.broker.support import dying_producer
from tests.broker.support.forked_command import ForkedCommand
from tests.broker.support.lab import Topic

REPLAY_MAX_S = 240


class Replay:
    """`shardlog dlq replay` of a topic, running."""

    def __init__(self, dlq: Topic, *options: str, first: Callable[[], None] | None = None) -> None:
        self._place = TemporaryDirectory()
        self._out, self._err = (Path(self._place.name) / name for name in ("out", "err"))
        arguments = _arguments(dlq, *options)
        self._process = ForkedCommand(arguments, self._out, os.environ, self._err, first)

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code, and what it said and complained of."""
        with self._place:
            code = self._process.wait(REPLAY_MAX_S)
            return code, self._out.read_text(), self._err.read_text()


def die_at_commit(dlq: Topic, when: str) -> int:
    """Have a replay die right before, right behind or soon behind its first commit."""
    code, _, _ = Replay(dlq, first=partial(dying_producer.die_at_commit, when)).ended()
    return code


def replay(dlq: Topic, *options: str) -> str:
    """Run `shardlog dlq replay` to its end; return what it says."""
    code, out, err = Replay(dlq, *options).ended()
    assert code == 0, err
    return out


def replay_as_people_do(dlq: Topic) -> str:
    """Run it as a command of its own."""
    return subprocess.run(
        [sys.executable, "-m", "connectors.cli.main", *_arguments(dlq)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[3])},
        timeout=REPLAY_MAX_S,
        check=True,
    ).stdout


def _arguments(dlq: Topic, *options: str) -> list[str]:
    return ["dlq", "replay", dlq.name, "--bootstrap", dlq.bootstrap, *options]
