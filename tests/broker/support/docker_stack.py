"""The same servers in Docker, for those who have it: images and settings of docker-compose.yml.

Each process of a run has its own, as testcontainers ends them with the process that started them.
Where Docker is missing `missing_docker()` says so in one line.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from testcontainers.core.container import DockerContainer

from connectors.devtools.broker import is_broker_answering
from connectors.devtools.ports import LOOPBACK, free_ports
from connectors.devtools.registry import is_registry_answering
from storage_core import Environment

COMPOSE_FILE = Path(__file__).parents[3] / "docker-compose.yml"
START_MAX_S = 120
LOOK_EVERY_S = 0.2
DOCKER_ANSWER_MAX_S = 20
BROKER_PORT = 9092
REGISTRY_PORT = 8080


def missing_docker() -> str | None:
    """Say what is missing to run containers, or None."""
    if shutil.which("docker") is None:
        return "no docker on PATH"
    answer = subprocess.run(
        ["docker", "info"], capture_output=True, timeout=DOCKER_ANSWER_MAX_S, check=False
    )
    return None if answer.returncode == 0 else "the Docker daemon does not answer"


def compose_services() -> dict[str, Any]:
    """Return the services of docker-compose.yml."""
    services: dict[str, Any] = YAML(typ="safe").load(COMPOSE_FILE)["services"]
    return services


@contextmanager
def broker_container() -> Iterator[str]:
    """Run a broker and give its address."""
    service = compose_services()["kafka"]
    (port,) = free_ports(1)
    container = DockerContainer(service["image"]).with_bind_ports(BROKER_PORT, port)
    for name, value in service["environment"].items():
        container.with_env(name, str(value))
    # Clients go where the broker says that it is.
    advertised = f"PLAINTEXT://{LOOPBACK}:{port},INTERNAL://localhost:29092"
    with container.with_env("KAFKA_ADVERTISED_LISTENERS", advertised):
        yield _once_it_answers(f"{LOOPBACK}:{port}", is_broker_answering)


@contextmanager
def registry_container() -> Iterator[str]:
    """Run a registry and give its URL."""
    (port,) = free_ports(1)
    image = compose_services()["registry"]["image"]
    with DockerContainer(image).with_bind_ports(REGISTRY_PORT, port):
        url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        yield _once_it_answers(url, is_registry_answering)


def _once_it_answers(address: str, is_answering: Callable[[str], bool]) -> str:
    clock = Environment().clock
    deadline = clock.monotonic_s() + START_MAX_S
    while not is_answering(address):
        if clock.monotonic_s() > deadline:
            pytest.fail(f"{address} does not answer after {START_MAX_S} s", pytrace=False)
        clock.sleep(LOOK_EVERY_S)
    return address
