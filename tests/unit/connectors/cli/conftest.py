"""What the tests of the verbs share: the command, run in this process."""

import pytest

from tests.unit.connectors.command import Shardlog, runner


@pytest.fixture
def shardlog(capsys, monkeypatch) -> Shardlog:
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    return runner(capsys)
