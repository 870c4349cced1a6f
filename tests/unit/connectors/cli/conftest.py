"""What the tests of the commands share: the command, run in this process."""

import pytest

from tests.unit.connectors.command import Shardlog, runner


@pytest.fixture
def shardlog(capsys, monkeypatch) -> Shardlog:
    for name in ("KAFKA_BOOTSTRAP", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(name, raising=False)
    return runner(capsys)
