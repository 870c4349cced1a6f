"""A real broker and registry, one of each for all processes of a run, started when first asked.

They are, the first that applies:

* those that $KAFKA_BOOTSTRAP and $SCHEMA_REGISTRY_URL name;
* with `--docker`, containers of the images in docker-compose.yml, one of each a process;
* child processes from their public jars (connectors/devtools). They belong to the process that
  was started as pytest and end with it, however it ends.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from connectors.devtools.broker import BROKER
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.process import Process
from connectors.devtools.registry import REGISTRY
from connectors.devtools.stack import DevStack
from connectors.kafka import FetchWay, Producer
from storage_core import ShardlogError
from tests.broker.support.docker_stack import broker_container, missing_docker, registry_container
from tests.broker.support.lab import Lab
from tests.broker.support.spark_program import SparkProgram
from tests.faults.support.campaign import fault_seed

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let those who have Docker use it."""
    parser.addoption(
        "--docker", action="store_true", help="run brokers in Docker, not from their jars"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder as needing a broker."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.broker)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line that says what was not run."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "broker" in getattr(report, "keywords", {})
    ]
    if skipped and terminalreporter.config.getoption("--docker"):
        terminalreporter.write_line(f"NOT RUN, {missing_docker()}: {len(skipped)} broker tests")


@pytest.fixture(scope="session")
def dev_stack(tmp_path_factory: pytest.TempPathFactory) -> DevStack:
    """The servers that all processes of this run share."""
    place, owner = tmp_path_factory.getbasetemp(), Process.current()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # A worker may end before the run does; the process that started it does not.
        controller = Process.find(os.getppid())
        assert controller is not None, "the run goes on"
        place, owner = place.parent, controller
    return DevStack(place / "dev-stack", owner=owner, jvm_options=SHORT_LIVED)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, dev_stack: DevStack) -> Iterator[str]:
    """The address of a broker that answers."""
    with _container(request, BROKER.variable, broker_container()) as address:
        yield address or _started(lambda: dev_stack.address(BROKER))


@pytest.fixture(scope="session")
def registry(request: pytest.FixtureRequest, dev_stack: DevStack) -> Iterator[str]:
    """The URL of a schema registry that answers."""
    with _container(request, REGISTRY.variable, registry_container()) as address:
        yield address or _started(lambda: dev_stack.address(REGISTRY))


@pytest.fixture(scope="session")
def kafka_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProgram]:
    """Spark with its own Kafka source and Avro functions."""
    with SparkProgram(tmp_path_factory.mktemp("spark") / "spark.log") as program:
        yield program


@pytest.fixture
def fetch() -> FetchWay:
    """How the workers of a test fetch, unless its parameters say so."""
    return "auto"


@pytest.fixture(scope="session")
def producer(broker: str) -> Producer:
    """What sends records of all tests of a process."""
    return Producer(broker)


@pytest.fixture
def lab(
    request: pytest.FixtureRequest,
    broker: str,
    tmp_path: Path,
    fetch: FetchWay,
    producer: Producer,
) -> Iterator[Lab]:
    """Topics, producers and workers of one test; a failure tells the seed."""
    seed = fault_seed()
    request.node.add_report_section("setup", "to run this again", f"SHARDLOG_FAULT_SEED={seed}")
    lab = Lab(broker, tmp_path, seed, fetch, producer)
    yield lab
    lab.close()


def _container(
    request: pytest.FixtureRequest, variable: str, container: AbstractContextManager[str]
) -> AbstractContextManager[str | None]:
    if os.environ.get(variable) or not request.config.getoption("--docker", default=False):
        return nullcontext()
    missing = missing_docker()
    if missing is not None:
        pytest.skip(missing)
    return container


def _started(start: Callable[[], str]) -> str:
    try:
        return start()
    except ShardlogError as error:
        pytest.fail(str(error), pytrace=False)
