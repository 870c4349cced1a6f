"""One cluster, and one driver of it, for all tests of this folder, started when first asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark.cluster.driver import Driver, Plan
from tests.spark.cluster.lab import WRITE_TOKEN, ClusterLab, stop_queries
from tests.spark.cluster.machines import NoWayError
from tests.spark.cluster.package import lean_python, shipped_archive
from tests.spark.cluster.standalone import Standalone


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a cluster is given."""

    python: Path
    archive: Path
    token_file: Path
    known_tokens: Path


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """The cluster."""
    try:
        cluster = Standalone(tmp_path_factory.mktemp("cluster"))
    except NoWayError as error:
        pytest.fail(str(error))
    with cluster:
        yield cluster


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """A Python without RocksDB, shardlog in a file, and the token that servers know."""
    place = tmp_path_factory.mktemp("shipped")
    files = place / "token", place / "known-tokens"
    for file in files:
        file.write_text(f"{WRITE_TOKEN}\n")
    return Shipped(lean_python(place / "python"), shipped_archive(place), *files)


@pytest.fixture(scope="session")
def plan(cluster: Standalone, shipped: Shipped) -> Plan:
    """How a driver starts that has nothing but what was shipped."""
    return Plan(
        cluster.address, cluster.place, str(shipped.python), shipped.archive, shipped.token_file
    )


@pytest.fixture(scope="session")
def shared_driver(plan: Plan) -> Iterator[Driver]:
    """A driver for all tests that let it live."""
    driver = Driver(plan)
    yield driver
    driver.end()


@pytest.fixture
def driver(shared_driver: Driver) -> Iterator[Driver]:
    """The driver, in which no query runs before and after a test."""
    yield shared_driver
    shared_driver.do(stop_queries)


@pytest.fixture
def lab(
    cluster: Standalone, shipped: Shipped, request: pytest.FixtureRequest
) -> Iterator[ClusterLab]:
    """A stream of the test's own, and its server once it is asked to serve."""
    number = len(list(cluster.disk.iterdir()))
    lab = ClusterLab(cluster.disk / f"{number}-{request.node.name[:40]}", shipped.known_tokens)
    yield lab
    lab.end()
