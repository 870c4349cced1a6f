"""Fixtures of stores, for whatever folder imports them into its conftest.py."""

import os
from pathlib import Path

import pytest

from connectors.devtools.process import Process
from tests.lake.support.stores import BucketStore, DirectoryStore, Store, shared_s3_server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of an S3 server, which all processes of this run share."""
    place, owner = tmp_path_factory.getbasetemp(), Process.current()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # A worker may end before the run does; the process that started it does not.
        controller = Process.find(os.getppid())
        assert controller is not None, "the run goes on"
        place, owner = place.parent, controller
    return shared_s3_server(place / "s3-server", owner)


@pytest.fixture
def bucket_store(s3_server: str) -> BucketStore:
    """A bucket of its own."""
    return BucketStore(s3_server)


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of either kind."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "lake of a test")
    bucket: BucketStore = request.getfixturevalue("bucket_store")
    return bucket
