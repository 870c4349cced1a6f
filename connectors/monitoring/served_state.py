"""How the server stands that a worker has beside it, for health and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connectors.monitoring.metrics_text import Family, single


@dataclass(frozen=True, slots=True)
class ServedState:
    """How a worker's server stands.

    Attributes:
        address: Where it listens.
        is_running: Whether it answers; not while it is started.
        restarts: How often it was started again.
        pid: Its process; 0 while none runs.
    """

    address: str
    is_running: bool
    restarts: int
    pid: int

    def document(self) -> dict[str, Any]:
        """Return it as health shows it."""
        return {"address": self.address, "running": self.is_running, "restarts": self.restarts}

    def families(self) -> Sequence[Family]:
        """Return it as metrics."""
        return (
            single(
                "shardlog_worker_server_up",
                "gauge",
                "1 while the server beside the worker answers.",
                float(self.is_running),
            ),
            single(
                "shardlog_worker_server_restarts_total",
                "counter",
                "How often the server beside the worker was started again.",
                self.restarts,
            ),
        )
