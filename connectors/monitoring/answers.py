"""The paths of the worker's HTTP server, and their answers.

    /metrics         for Prometheus
    /health/live     200 while the worker's loop goes on, 503 once it is silent
    /health/ready    200 once partitions were given out and each shard is open or paused, else 503
    /version         version and how records are fetched
    /config          settings in force, secrets as ***

Belongs to one thread, but for `at_once`: the server has one question answered at a time.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from connectors.ingest.status.worker_state import LatestState
from connectors.monitoring.disk_space import disk_families
from connectors.monitoring.lag_seconds import LagSeconds
from connectors.monitoring.metrics import families_of
from connectors.monitoring.metrics_text import CONTENT_TYPE, encode_families, single
from connectors.monitoring.process_figures import process_families
from connectors.monitoring.served_state import ServedState

_ANSWER_WITHIN_S: Final = 1.0
_LIVE: Final = "/health/live"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """What does not change while a worker runs.

    Attributes:
        version: The version of shardlog.
        fetches_by: How records are fetched.
        group: Its group.
        cluster: What the cluster is called.
        stalled_after_s: How long its loop may be silent.
        settings: The settings in force, without secrets.
        root: Where it stores, whose disk is told of; None for none.
        served: Tells how the server beside it stands; None without one.
    """

    version: str
    fetches_by: str
    group: str
    cluster: str
    stalled_after_s: float
    settings: Mapping[str, Any]
    root: Path | None = None
    served: Callable[[], ServedState] | None = None


class Answers:
    """Answers requests by their path."""

    def __init__(self, info: WorkerInfo, latest_state: LatestState) -> None:
        """Answer from what the worker leaves in `latest_state`."""
        self._info = info
        self._latest_state = latest_state
        self._lags = LagSeconds()
        self._by_path = {
            "/metrics": self._metrics,
            _LIVE: self._live,
            "/health/ready": self._ready,
            "/version": self._version,
            "/config": self._config,
        }

    def at_once(self, path: str) -> Answer | None:
        """Return the answer of a path that never waits for the worker's loop. Any thread.

        A liveness probe has little patience, and may restart the worker.
        """
        return self._live() if path == _LIVE else None

    def of(self, path: str) -> Answer:
        """Return the answer of a path."""
        answer = self._by_path.get(path)
        if answer is None:
            return _json({"error": "no such path", "paths": [*self._by_path]}, HTTPStatus.NOT_FOUND)
        return answer()

    def _metrics(self) -> Answer:
        silent_s = self._latest_state.silent_s
        state = self._latest_state.request(_ANSWER_WITHIN_S)
        info = self._info
        families = [
            single(
                "shardlog_build_info",
                "gauge",
                "1; the label has the version.",
                1,
                version=info.version,
            ),
            single(
                "shardlog_loop_silent_seconds",
                "gauge",
                "Seconds since the worker's loop last ran.",
                silent_s,
            ),
        ]
        families += process_families()
        if info.root is not None:
            families += disk_families(info.root)
        if info.served is not None:
            families += info.served().families()
        if state is not None:
            families += families_of(state, info.group, info.cluster, self._lags)
        return Answer(HTTPStatus.OK, encode_families(families), CONTENT_TYPE)

    def _live(self) -> Answer:
        silent_s = self._latest_state.silent_s
        is_alive = silent_s <= self._info.stalled_after_s
        return _health({"loop_silent_s": round(silent_s, 3)}, is_healthy=is_alive)

    def _ready(self) -> Answer:
        if self._latest_state.is_over:
            return _health({"reason": "the worker is stopping"}, is_healthy=False)
        state = (
            None if self._latest_state.is_opening else self._latest_state.request(_ANSWER_WITHIN_S)
        )
        if self._latest_state.is_opening:
            return _health({"reason": "shards are being opened"}, is_healthy=False)
        if state is None:
            return _health({"reason": "the worker's loop does not answer"}, is_healthy=False)
        if self._latest_state.silent_s > self._info.stalled_after_s:
            return _health({"reason": "the worker's loop is stalled"}, is_healthy=False)
        reason = None
        if state.has_no_topic and not state.shards:
            reason = "none of the topics exists"
        elif not state.has_joined:
            reason = "no partition is assigned"
        is_ready = not (state.waiting or state.quarantined or reason)
        figures = {
            **({"reason": reason} if reason else {}),
            "shards": len(state.shards),
            "waiting": state.waiting,
            "quarantined": state.quarantined,
            "paused": len(state.paused),
            **({} if self._info.served is None else {"server": self._info.served().document()}),
        }
        return _health(figures, is_healthy=is_ready)

    def _version(self) -> Answer:
        return _json({"version": self._info.version, "fetches_by": self._info.fetches_by})

    def _config(self) -> Answer:
        return _json(self._info.settings)


def _json(content: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, json.dumps(content, indent=2).encode() + b"\n")


def _health(details: dict[str, Any], *, is_healthy: bool) -> Answer:
    status = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return _json({"healthy": is_healthy, **details}, status)
