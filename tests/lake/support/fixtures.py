"""Fixtures of stores, for whatever folder imports them into its conftest.py."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connectors.devtools.process import Process
from storage_core.lake.delta import atomic_create
from tests.lake.support.stores import BucketStore, DirectoryStore, Store, shared_s3_server

ROUNDS_OF_USERS: Final = atomic_create.ROUNDS


@pytest.fixture(scope="session", autouse=True)
def few_rounds() -> Iterator[None]:
    """Try in two rounds whether a store is one for a lake, not in those of users, which take 10 s.

    Each proxy has an address of its own, so that each is a store that was not tried yet.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic_create, "ROUNDS", 2)
        yield


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
