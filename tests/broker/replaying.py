"""A replay in a process of its own, which a test may kill at any moment."""

import os
import subprocess
import sys
from pathlib import Path

from tests.broker.lab import Topic


def start_replay(dlq: Topic, *options: str) -> subprocess.Popen[str]:
    """Start `shardlog dlq replay` of a topic."""
    command = [sys.executable, "-m", "connectors.cli.main", "dlq", "replay", dlq.name]
    return subprocess.Popen(
        [*command, "--bootstrap", dlq.bootstrap, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2])},
    )


def replay(dlq: Topic, *options: str) -> str:
    """Run `shardlog dlq replay` to its end; return what it says."""
    process = start_replay(dlq, *options)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out
