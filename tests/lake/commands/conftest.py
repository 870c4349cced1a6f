"""Fixtures of commands over the lake: a stream whose table is in a store, and the command."""

from datetime import timedelta

import pytest

from tests.lake.commands.command_lab import CommandLab
from tests.lake.support.fixtures import bucket_store, s3_server, store
from tests.unit.connectors.command import Shardlog, runner

__all__ = ["bucket_store", "s3_server", "store"]


@pytest.fixture
def shardlog(capsys, monkeypatch) -> Shardlog:
    monkeypatch.delenv("SHARDLOG_LAKE_OPTIONS_FILE", raising=False)
    return runner(capsys)


@pytest.fixture
def lab(tmp_path, store, shardlog):
    lab = CommandLab(tmp_path, store, shardlog, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()
