"""Goal: what operators deploy names only options, paths, codes and files that there are.

Method: the files are parsed; settings and arguments go through `shardlog worker --check`, and the
rest is held against the places that own it.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from connectors.cli import exit_codes
from connectors.ingest.status.worker_state import LatestState
from connectors.monitoring.answers import Answers, WorkerInfo
from connectors.settings.options import WorkerOptions
from storage_core import SystemClock
from tests.deploy.support.deployed import (
    DASHBOARD,
    DEPLOY,
    KUBERNETES,
    ROOT,
    UNIT,
    read_documents,
    read_yaml,
    rules,
)
from tests.unit.connectors.command import Shardlog, runner

COMPOSE = ROOT / "docker-compose.yml"
STOP_STEPS = 3
SETTLE_S = 10
STOP_TIMEOUT_S = WorkerOptions.model_fields["stop_timeout_s"].default
BY_ITSELF = {exit_codes.EXIT_UNEXPECTED, exit_codes.EXIT_UNAVAILABLE, exit_codes.EXIT_WRITE_FAILED}
IN_VAIN = {
    exit_codes.EXIT_USAGE,
    exit_codes.EXIT_FOREIGN,
    exit_codes.EXIT_DAMAGE,
    exit_codes.EXIT_CLIENT_FAILED,
}


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


def check(shardlog: Shardlog, tmp_path: Path, config: str, arguments: list[str]) -> dict[str, Any]:
    """Have the worker check settings, with a root that may be written; return those in force."""
    file = tmp_path / "worker.toml"
    file.write_text(config)
    place = arguments.index("--config") + 1
    arguments = [*arguments[:place], str(file), *arguments[place + 1 :]]
    ran = shardlog(*arguments, "--check", "--set", f"root={tmp_path / 'root'}")
    assert ran.code == 0, ran
    settings: dict[str, Any] = json.loads(ran.out)
    return settings


def unit() -> dict[str, list[str]]:
    """Return the values of each setting of the unit."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def kubernetes(kind: str) -> Any:
    (document,) = [each for each in read_documents(KUBERNETES) if each["kind"] == kind]
    return document


def pod() -> Any:
    return kubernetes("StatefulSet")["spec"]["template"]


def answered_paths() -> set[str]:
    info = WorkerInfo(
        version="", fetches_by="", group="", cluster="", stalled_after_s=60.0, settings={}
    )
    latest = LatestState(lambda _: pytest.fail("nothing is asked"), SystemClock())
    return set(json.loads(Answers(info, latest).of("/nowhere").body)["paths"])


def longest_stop_s(stop_timeout_s: float) -> float:
    """Return how long a clean stop may take: its steps, and threads that are waited for."""
    return STOP_STEPS * stop_timeout_s + SETTLE_S


def test_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on PATH")
    copy = tmp_path / UNIT.name
    true = shutil.which("true")
    copy.write_text(UNIT.read_text().replace("/opt/shardlog/bin/shardlog", str(true)))
    ran = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_unit_starts_again_what_may_pass_by_itself_and_nothing_else() -> None:
    codes = {int(code) for code in unit()["RestartPreventExitStatus"][0].split()}
    assert codes == IN_VAIN
    assert not codes & BY_ITSELF
    assert unit()["Restart"] == ["on-failure"]
    assert unit()["SuccessExitStatus"] == [str(exit_codes.EXIT_AT_ONCE)]


def test_unit_waits_for_a_clean_stop_and_signals_the_worker_alone() -> None:
    assert int(unit()["TimeoutStopSec"][0]) > longest_stop_s(STOP_TIMEOUT_S)
    assert unit()["KillMode"] == ["mixed"]


def test_unit_runs_a_command_that_there_is(shardlog: Shardlog, tmp_path: Path) -> None:
    _, *arguments = unit()["ExecStart"][0].split()
    config = 'topics = ["a"]\n[kafka]\n"bootstrap.servers" = "broker:9092"\n'
    assert check(shardlog, tmp_path, config, arguments)["topics"] == ["a"]


def test_pod_runs_a_command_with_settings_that_there_are(
    shardlog: Shardlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (container,) = pod()["spec"]["containers"]
    name = f"{kubernetes('StatefulSet')['metadata']['name']}-0"
    for variable in container["env"]:
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        monkeypatch.setenv(variable["name"], name)
    program, *arguments = [each.replace("$(POD_NAME)", name) for each in container["args"]]
    assert program == "shardlog"
    file = Path(arguments[arguments.index("--config") + 1])
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert file.parent == Path(mounts["config"])
    config = kubernetes("ConfigMap")["data"][file.name]
    settings = check(shardlog, tmp_path, config, arguments)
    assert settings["kafka"]["group.instance.id"] == name
    grace_s = pod()["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > longest_stop_s(settings["stop_timeout_s"])
    # One that comes back within its session takes its partitions without a rebalance.
    assert settings["kafka"]["session.timeout.ms"] >= 1000 * grace_s
    port = settings["metrics"]["listen"].rpartition(":")[2]
    assert [each["containerPort"] for each in container["ports"]] == [int(port)]
    assert pod()["metadata"]["annotations"]["prometheus.io/port"] == port
    assert f'root = "{mounts["streams"]}/' in config


def test_probes_ask_for_paths_that_a_worker_answers() -> None:
    (container,) = pod()["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
    paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")}
    paths.add(pod()["metadata"]["annotations"]["prometheus.io/path"])
    assert paths <= answered_paths()


def test_every_volume_that_a_pod_mounts_is_there() -> None:
    stateful = kubernetes("StatefulSet")["spec"]
    volumes = {each["name"] for each in pod()["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]}
    (container,) = pod()["spec"]["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    assert stateful["selector"]["matchLabels"] == pod()["metadata"]["labels"]
    assert stateful["serviceName"] == kubernetes("Service")["metadata"]["name"]


def test_compose_file_mounts_what_there_is() -> None:
    compose = read_yaml(COMPOSE)
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (ROOT / source).is_dir(), volume


def test_compose_file_provisions_rules_and_dashboard(shardlog: Shardlog, tmp_path: Path) -> None:
    compose = read_yaml(COMPOSE)
    services = compose["services"]
    config = compose["configs"]["worker"]["content"]
    arguments = ["worker", "--config", "x", "--set", "kafka.bootstrap.servers=kafka:29092"]
    listen = check(shardlog, tmp_path, config, arguments)["metrics"]["listen"]
    (scrape,) = read_yaml(DEPLOY / "prometheus/prometheus.yml")["scrape_configs"]
    (target,) = scrape["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in services
    assert port == listen.rpartition(":")[2]
    (source,) = read_yaml(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"].removeprefix("http://").partition(":")[0] in services
    uids = {each["datasource"]["uid"] for each in panels_with_queries()}
    assert uids == {source["uid"]}
    (provider,) = read_yaml(DEPLOY / "grafana/provisioning/dashboards/shardlog.yml")["providers"]
    mounts = dict(each.split(":")[:2] for each in services["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/{DASHBOARD.name}"


def panels_with_queries() -> list[Any]:
    return [each for each in json.loads(DASHBOARD.read_text())["panels"] if each.get("targets")]


def test_panels_of_the_dashboard_lie_side_by_side() -> None:
    taken: dict[tuple[int, int], str] = {}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_says_what_to_do() -> None:
    for name, rule in rules().items():
        assert set(rule["annotations"]) == {"summary", "action"}, name
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
