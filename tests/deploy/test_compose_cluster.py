"""Goal: the compose file of a Spark cluster names only what there is, and fits the one beside it.

Method: as in test_files.py; nobody has run it where these tests run.
"""

import json
import re
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyspark
import pytest

from storage_core.remote.options import TOKEN_FILE_VARIABLE
from tests.deploy.support.deployed import DEPLOY, ROOT, read_yaml
from tests.unit.connectors.command import Shardlog, runner

CLUSTER = DEPLOY / "compose-cluster.yml"
SPARK = ("spark-master", "spark-worker")
CONFIG = "/etc/shardlog/worker.toml"
# The first process of a container once all is installed.
RUNS = {
    "worker": (
        "/usr/local/bin/python3.11",
        "/usr/local/bin/shardlog",
        "worker",
        "--config",
        CONFIG,
    ),
    "spark-master": (
        "/usr/lib/jvm/bin/java",
        "-cp",
        "jars/*",
        "org.apache.spark.deploy.master.Master",
    ),
    "spark-worker": (
        "/usr/lib/jvm/bin/java",
        "-cp",
        "jars/*",
        "org.apache.spark.deploy.worker.Worker",
    ),
}


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


@pytest.fixture
def cluster() -> Any:
    return read_yaml(CLUSTER)


@pytest.fixture
def beside() -> Any:
    return read_yaml(ROOT / "docker-compose.yml")


def command_of(service: Any) -> str:
    return str(service["command"][-1])


def test_spark_is_the_one_that_is_tested_on_the_python_of_the_worker(cluster, beside) -> None:
    for name in SPARK:
        service = cluster["services"][name]
        assert service["image"] == beside["services"]["worker"]["image"]
        assert re.findall(r"pyspark==(\S+)", command_of(service)) == [pyspark.__version__]
        (class_,) = re.findall(r"org\.apache\.spark\.deploy\.\S+", command_of(service))
        (jar,) = Path(pyspark.__path__[0]).glob("jars/spark-core_*.jar")
        assert f"{class_.replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()
    host, _, port = (
        command_of(cluster["services"]["spark-worker"]).rpartition("//")[2].partition(":")
    )
    assert f"--host {host} --port {port}" in command_of(cluster["services"]["spark-master"])
    assert cluster["services"]["spark-worker"]["deploy"] == {"replicas": 2}


def test_worker_serves_with_a_token_and_no_container_of_spark_has_its_streams(
    cluster, beside, shardlog: Shardlog, tmp_path: Path
) -> None:
    ((name, secret),) = cluster["secrets"].items()
    token = f"/run/secrets/{name}"
    (config,) = cluster["services"]["worker"]["configs"]
    assert config["target"] == beside["services"]["worker"]["configs"][0]["target"] == CONFIG
    text = cluster["configs"][config["source"]]["content"]
    assert beside["configs"]["worker"]["content"].strip() in text
    assert token in text
    file = tmp_path / "worker.toml"
    (tmp_path / "token").write_text("0123456789abcdef")
    file.write_text(text.replace(token, f"{tmp_path}/token"))
    settings = ["--set", "kafka.bootstrap.servers=kafka:29092", "--set", f"root={tmp_path}/root"]
    ran = shardlog("worker", "--config", str(file), "--check", *settings)
    assert ran.code == 0, ran
    assert json.loads(ran.out)["serve"]["listen"].endswith(":8085")
    assert "worker:8085" in (ROOT / "docs/SPARK.md").read_text()
    assert secret["environment"] in CLUSTER.read_text().partition("services:")[0]
    for name in SPARK:
        service = cluster["services"][name]
        assert service["environment"][TOKEN_FILE_VARIABLE] == token
        assert not any("streams" in volume for volume in service["volumes"])
    for name in ("worker", *SPARK):
        assert cluster["services"][name]["secrets"] == [*cluster["secrets"]]


@pytest.mark.parametrize("name", RUNS)
def test_container_is_healthy_once_its_shell_is_done(
    name: str, cluster, beside, tmp_path: Path
) -> None:
    service = beside["services"].get(name, {}) | cluster["services"][name]
    kind, check = service["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    process = tmp_path / "cmdline"

    def is_healthy(command: Iterable[str]) -> bool:
        process.write_text("".join(f"{word}\0" for word in command))
        here = check.replace("/proc/1/cmdline", str(process))
        return subprocess.run(["sh", "-c", here], check=False).returncode == 0

    assert not is_healthy(service["command"])
    assert is_healthy(RUNS[name])


def test_what_it_waits_for_and_mounts_is_there(cluster, beside) -> None:
    services = beside["services"].keys() | cluster["services"].keys()
    for service in cluster["services"].values():
        for name, waited in service.get("depends_on", {}).items():
            assert name in services
            assert waited == {"condition": "service_healthy"}
        for volume in service.get("volumes", ()):
            source = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
            assert (ROOT / source).is_dir(), volume
