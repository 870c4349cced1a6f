"""The files of `deploy/`, read."""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus/shardlog-rules.yml"
DASHBOARD = DEPLOY / "grafana/dashboards/shardlog.json"
UNIT = DEPLOY / "systemd/shardlog-worker.service"
KUBERNETES = DEPLOY / "kubernetes/shardlog.yaml"
_METRIC = re.compile(r"\b(?:shardlog|kafka)_\w+|\bup\b")
_TEXT = re.compile(r'"[^"]*"')
_RANGE_MINUTES = re.compile(r"(?<=[\[ ])\d+m\b")
_SECONDS_MAX = re.compile(r"(?<=_seconds)(\)?) > \d+")


def read_yaml(path: Path) -> Any:
    """Return the one document of a file."""
    return YAML(typ="safe").load(path)


def read_documents(path: Path) -> list[Any]:
    """Return all documents of a file."""
    return list(YAML(typ="safe").load_all(path))


def rules() -> dict[str, dict[str, Any]]:
    """Return the alert rules by name."""
    (group,) = read_yaml(RULES)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def hasty_rules(names: Collection[str]) -> dict[str, Any]:
    """Return rules with a second where they wait, some seconds where they look back minutes.

    On a machine that is short of processor time a worker that is well may make them fire.
    """
    hasty = []
    for rule in (rules()[name] for name in sorted(names)):
        # Longer than some scrapes that fail: a cause that is made once is seen once.
        expression = _RANGE_MINUTES.sub("15s", rule["expr"])
        hasty.append({**rule, "expr": _SECONDS_MAX.sub(r"\1 > 2", expression), "for": "1s"})
    return {"groups": [{"name": "shardlog", "rules": hasty}]}


def panels() -> Iterator[tuple[str, str]]:
    """Yield title and expression of each query of the dashboard, its variables filled in."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "30s")
            yield panel["title"], re.sub(r"\$\w+", ".*", text)


def metrics_of(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(_METRIC.findall(_TEXT.sub('""', expression)))
