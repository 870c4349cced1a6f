"""What is answered under which path.

    /metrics         for Prometheus
    /health/live     200 while the worker's loop goes on, 503 once it is silent
    /health/ready    200 once partitions were given out and all their shards are open, else 503
    /version         version and how records are fetched
    /config          what is in force, secrets as ***

Belongs to one thread, but for `at_once`: the server has one question answered at a time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from connectors.ingest.status.worker_state import LatestState
from connectors.monitoring.lag_seconds import LagSeconds
from connectors.monitoring.metrics import families_of
from connectors.monitoring.metrics_text import CONTENT_TYPE, encode_families, single

_ANSWER_WITHIN_S: Final = 1.0
_LIVE: Final = "/health/live"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a worker is, which does not change.

    Attributes:
        version: The version of shardlog.
        fetches_by: How records are fetched.
        group: Its group.
        cluster: What the cluster is called.
        stalled_after_s: How long its loop may be silent.
        settings: What is in force, without secrets.
    """

    version: str
    fetches_by: str
    group: str
    cluster: str
    stalled_after_s: float
    settings: Mapping[str, Any]


class Answers:
    """Answers what is asked of a worker."""

    def __init__(self, told: Told, latest_state: LatestState) -> None:
        """Answer from what the worker leaves in `latest_state`."""
        self._told = told
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
        """Return what stands under a path, if nobody has to be waited for. Any thread.

        Whoever asks whether the worker lives has little patience, and may restart it.
        """
        return self._live() if path == _LIVE else None

    def of(self, path: str) -> Answer:
        """Return what stands under a path."""
        found = self._by_path.get(path)
        if found is None:
            return _json({"error": "no such path", "paths": [*self._by_path]}, HTTPStatus.NOT_FOUND)
        return found()

    def _metrics(self) -> Answer:
        silent_s = self._latest_state.silent_s
        state = self._latest_state.ask(_ANSWER_WITHIN_S)
        told = self._told
        families = [
            single(
                "shardlog_build_info", "gauge", "1; the label says what.", 1, version=told.version
            ),
            single(
                "shardlog_loop_silent_seconds", "gauge", "Since the loop was heard of.", silent_s
            ),
        ]
        if state is not None:
            families += families_of(state, told.group, told.cluster, self._lags)
        return Answer(HTTPStatus.OK, encode_families(families), CONTENT_TYPE)

    def _live(self) -> Answer:
        silent_s = self._latest_state.silent_s
        is_alive = silent_s <= self._told.stalled_after_s
        return _health({"silent_s": round(silent_s, 3)}, is_well=is_alive)

    def _ready(self) -> Answer:
        if self._latest_state.is_over:
            return _health({"reason": "it is stopping"}, is_well=False)
        state = None if self._latest_state.is_taking else self._latest_state.ask(_ANSWER_WITHIN_S)
        if self._latest_state.is_taking:
            return _health({"reason": "shards are being opened"}, is_well=False)
        if state is None:
            return _health({"reason": "its loop does not answer"}, is_well=False)
        if self._latest_state.silent_s > self._told.stalled_after_s:
            return _health({"reason": "the loop is silent"}, is_well=False)
        reason = None
        if state.has_no_topic and not state.shards:
            reason = "none of its topics is there"
        elif not state.has_joined:
            reason = "no partitions were given out yet, or the group has taken all away"
        is_ready = not (state.waiting or state.set_aside or reason)
        figures = {
            **({"reason": reason} if reason else {}),
            "shards": len(state.shards),
            "waiting": state.waiting,
            "set_aside": state.set_aside,
        }
        return _health(figures, is_well=is_ready)

    def _version(self) -> Answer:
        return _json({"version": self._told.version, "fetches_by": self._told.fetches_by})

    def _config(self) -> Answer:
        return _json(self._told.settings)


def _json(found: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, json.dumps(found, indent=2).encode() + b"\n")


def _health(found: dict[str, Any], *, is_well: bool) -> Answer:
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return _json({"is_well": is_well, **found}, status)
