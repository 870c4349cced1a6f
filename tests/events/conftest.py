"""Fixtures of the scenarios of events."""

import pytest

from tests.log.fixtures import root
from tests.unit.connectors.command import Shardlog, runner

__all__ = ["root"]


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    """The command."""
    return runner(capsys)
