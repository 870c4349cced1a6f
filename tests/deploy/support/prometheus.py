"""A real Prometheus: Debian's package, fetched by apt into the cache, unpacked, not installed."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest

from connectors.devtools.fetch import locked
from connectors.devtools.places import jars_directory
from connectors.devtools.ports import LOOPBACK, free_ports
from connectors.devtools.process import Process, last_telling_line, start_guarded
from tests.waiting import WAIT_MAX_S, await_that

FETCH_MAX_S = 900
# A server of packages, or the network, is away for a moment now and then.
APT = ("apt-get", "-o", "Acquire::Retries=3")
# A worker whose loop is silent takes a second to say so, and one that is short of processor time.
OFTEN = {"evaluation_interval": "1s", "scrape_interval": "3s", "scrape_timeout": "3s"}


@cache
def programs() -> Path:
    """Return the directory of `prometheus` and `promtool`; skip the test where it cannot be had."""
    on_path = shutil.which("promtool"), shutil.which("prometheus")
    if all(on_path):
        return Path(str(on_path[0])).parent
    place = jars_directory().parent / "prometheus"
    with locked(place.parent, "fetching prometheus"):
        if not (place / "usr/bin/promtool").is_file():
            _fetch(place)
    return place / "usr/bin"


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    command = [str(programs() / "promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Prometheus:
    """A running one."""

    def __init__(self, address: str, targets: Path) -> None:
        self._address = address
        self._targets = targets
        self._watched: list[dict[str, Any]] = []
        self._opener = build_opener(ProxyHandler({}))

    def watch(self, address: str, job: str = "shardlog") -> None:
        """Scrape an address from now on."""
        self._watched.append({"targets": [address], "labels": {"job": job}})
        partial = self._targets.with_suffix(".new")
        partial.write_text(json.dumps(self._watched))
        partial.replace(self._targets)

    def ask(self, path: str, **values: str) -> Any:
        """Return what is answered, and fail where the question is refused."""
        url = f"http://{self._address}/api/v1/{path}?{urlencode(values)}"
        with self._opener.open(url, timeout=WAIT_MAX_S) as answer:
            said = json.load(answer)
        assert said["status"] == "success", said
        return said["data"]

    def value(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression at this moment."""
        series: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return series

    def fired(self) -> set[str]:
        """Return the names of the alerts that have ever fired."""
        series = self.value('max_over_time(ALERTS{alertstate="firing"}[1h])')
        return {each["metric"]["alertname"] for each in series}

    def fired_for(self, alert: str, label: str) -> set[str]:
        """Return for which values of a label an alert has ever fired."""
        alerts = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
        series = self.value(f"max_over_time({alerts}[1h])")
        return {each["metric"].get(label, "") for each in series}

    def holding(self, rules: Mapping[str, dict[str, Any]]) -> set[str]:
        """Return the names of the rules whose expression holds at this moment."""
        return {name for name, rule in rules.items() if self.value(rule["expr"])}

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            self._opener.open(f"http://{self._address}/-/ready", timeout=WAIT_MAX_S).close()
        except (URLError, OSError):
            return False
        return True


@contextmanager
def scraping(directory: Path, rules: dict[str, Any]) -> Iterator[Prometheus]:
    """Run one that scrapes every 3 s what `Prometheus.watch` names, none at first."""
    directory.mkdir()
    (directory / "rules.yml").write_text(json.dumps(rules))
    discovery = [{"files": ["targets.json"], "refresh_interval": "1s"}]
    settings = {
        "global": OFTEN,
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "shardlog", "file_sd_configs": discovery}],
    }
    # JSON is YAML.
    (directory / "prometheus.yml").write_text(json.dumps(settings))
    (port,) = free_ports(1)
    address, log = f"{LOOPBACK}:{port}", directory / "prometheus.log"
    command = [
        str(programs() / "prometheus"),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
    ]
    running = start_guarded(command, log=log, scratch=None, owner=Process.current())
    server = Prometheus(address, directory / "targets.json")
    try:
        await_that(server.is_ready, lambda: f"Prometheus: {last_telling_line(log)}")
        yield server
    finally:
        running.program.stop()


def _fetch(place: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            pytest.skip(f"no prometheus on PATH, and no {tool} to fetch Debian's package with")
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        partial = Path(name)
        got = _run([*APT, "download", "prometheus"], partial)
        if got.returncode:
            _run([*APT, "update"], partial)
            got = _run([*APT, "download", "prometheus"], partial)
        packages = list(partial.glob("prometheus_*.deb"))
        if not packages:
            pytest.skip(f"no prometheus on PATH, and apt has none: {got.stderr.strip()[-200:]}")
        unpacked = partial / "unpacked"
        _run(["dpkg-deb", "--extract", str(packages[0]), str(unpacked)], partial)
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=FETCH_MAX_S, check=False
    )
