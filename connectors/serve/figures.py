"""What a server counts, and its metrics. docs/SERVER.md has the table."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from connectors.monitoring.disk_space import disk_families
from connectors.monitoring.metrics_text import Family, Sample, single
from connectors.monitoring.process_figures import process_families

_TOTALS: Final = {
    "rows": "Rows sent in answers that were completed.",
    "bytes": "Bytes sent.",
    "connections_refused": "Connections closed at once, since the limit was reached.",
    "handshakes_failed": "TLS handshakes that did not come to their end.",
    "staged_rows": "Rows that were staged.",
    "staged_bytes": "Bytes that staged rows came in.",
    "landed": "Staged transactions that were made durable, or were so before.",
    "events_stored": "Events that commands have stored.",
    "answers_cut": "Answers that ended early: the client stalled, went away, or the server failed.",
}
_GAUGES: Final = {
    "connections": "Open connections.",
    "storing_connections": "Open connections of clients that store, which one thread has.",
    "line_connections": "Open connections that send a command a line.",
    "subscriptions": "Subscriptions that are answered.",
    "answers": "Answers with rows that are being sent.",
    "held_bytes": "Bytes of rows that answers hold until they are sent.",
    "body_bytes": "Bytes of the bodies that requests hold, small ones left out.",
    "waits": "Clients that wait for an address to be committed.",
    "streams": "Streams that are open.",
    "stagings": "Requests whose rows are being staged.",
    "landings": "Staged transactions that are being made durable.",
}


class Figures:
    """Counts what a server does. Any thread."""

    def __init__(self, version: str, root: Path) -> None:
        """Begin with zeros."""
        self._version = version
        self._root = root
        self._lock = threading.Lock()
        self._totals = Counter(dict.fromkeys(_TOTALS, 0))
        self._requests: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._commands: Counter[tuple[str, str]] = Counter()
        self._command_s = 0.0
        self.gauges: dict[str, Callable[[], int]] = {}
        self.certificate_expires_s: Callable[[], float | None] = lambda: None

    def add(self, name: str, count: int = 1) -> None:
        """Count something."""
        with self._lock:
            self._totals[name] += count

    def answered(self, call: str, status: str, seconds: float, sent: int) -> None:
        """Count an answer.

        Args:
            call: The call, or the path without one.
            status: The HTTP status, or the kind of the error that ended a stream of rows.
            seconds: What it took.
            sent: Its bytes.
        """
        with self._lock:
            self._requests[call, status] += 1
            # Seconds are no integers; a Counter does not mind.
            self._seconds[call] += seconds  # type: ignore[assignment]
            self._totals["bytes"] += sent

    def commanded(self, counts: Mapping[tuple[str, str], int], seconds: float, events: int) -> None:
        """Count commands over typed events.

        Args:
            counts: How many, by verb and status.
            seconds: What they took until they were answered, without the rows.
            events: How many events they stored.
        """
        with self._lock:
            self._commands.update(counts)
            self._command_s += seconds
            self._totals["events_stored"] += events

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        with self._lock:
            totals, requests = dict(self._totals), dict(self._requests)
            seconds = dict(self._seconds)
            commands, command_s = dict(self._commands), self._command_s
        yield single(
            "shardlog_build_info",
            "gauge",
            "1; the label has the version.",
            1,
            version=self._version,
        )
        yield _labelled(
            "requests",
            "Requests by call and by the status of their answer.",
            ("call", "status"),
            requests.items(),
        )
        yield _labelled(
            "request_seconds",
            "Seconds that answers took, by call.",
            ("call",),
            [((call,), spent) for call, spent in seconds.items()],
        )
        yield _labelled(
            "commands",
            "Commands over typed events, by verb and by the status of their answer.",
            ("verb", "status"),
            commands.items(),
        )
        yield single(
            "shardlog_server_command_seconds_total",
            "counter",
            "Seconds that commands took until they were answered.",
            command_s,
        )
        for name, text in _TOTALS.items():
            yield single(f"shardlog_server_{name}_total", "counter", text, totals[name])
        for name, text in _GAUGES.items():
            yield single(f"shardlog_server_{name}", "gauge", text, self.gauges[name]())
        expires_s = self.certificate_expires_s()
        if expires_s is not None:
            yield single(
                "shardlog_server_certificate_expires_timestamp_seconds",
                "gauge",
                "When the certificate in use expires, in seconds since 1970.",
                expires_s,
            )
        yield from process_families()
        yield from disk_families(self._root)


def _labelled(
    name: str,
    text: str,
    labels: tuple[str, ...],
    counts: Iterable[tuple[tuple[str, ...], float]],
) -> Family:
    """Return a counter with a sample for each value of its labels."""
    samples = (
        Sample(dict(zip(labels, values, strict=True)), count) for values, count in sorted(counts)
    )
    return Family(f"shardlog_server_{name}_total", "counter", text, tuple(samples))
