"""A replay in a process of its own, which a test may kill at any moment, or at a certain one."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.broker.lab import Topic

DIED = 9
REPLAY_MAX_S = 240
# The process is gone in place of one call of the client library, or right behind it.
_DEATHS = {
    "before": "os._exit(9)",
    "behind": "super().commit_transaction(*given); os._exit(9)",
    # At a random moment behind its first commit, and behind its third at the latest.
    "soon behind": """
        super().commit_transaction(*given)
        commits.append(None)
        if len(commits) == 1:
            threading.Timer(random.uniform(0, 0.05), os._exit, [9]).start()
        if len(commits) == 3:
            os._exit(9)
""",
}
_DYING = """
import os, random, sys, threading
import confluent_kafka
from connectors.cli.main import run
commits = []
class Dying(confluent_kafka.Producer):
    def commit_transaction(self, *given):
        {death}
confluent_kafka.Producer = Dying
sys.argv[0] = "shardlog"
run()
"""


def start_replay(dlq: Topic, *options: str) -> subprocess.Popen[str]:
    """Start `shardlog dlq replay` of a topic."""
    return _start(dlq, "-m", "connectors.cli.main", options=options)


def die_at_commit(dlq: Topic, when: str) -> int:
    """Have a replay die right before, right behind or soon behind its first commit."""
    process = _start(dlq, "-c", _DYING.format(death=_DEATHS[when]))
    process.communicate(timeout=REPLAY_MAX_S)
    return process.returncode


def _start(dlq: Topic, *program: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
    command = ["dlq", "replay", dlq.name, "--bootstrap", dlq.bootstrap, *options]
    return subprocess.Popen(
        [sys.executable, *program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2])},
    )


def replay(dlq: Topic, *options: str) -> str:
    """Run `shardlog dlq replay` to its end; return what it says."""
    process = start_replay(dlq, *options)
    out, err = process.communicate(timeout=REPLAY_MAX_S)
    assert process.returncode == 0, err
    return out
