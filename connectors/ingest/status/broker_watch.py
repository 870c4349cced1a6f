"""Whether the broker answers: logged when it goes away and when it is back, not at every attempt.

What the worker asks it about topics says which: beside each round, every ten seconds when there is
none, every thirty while no partition is held. While it is away that is logged by the loop's clock,
whether anybody asks or not. Any thread: a round asks on its own, the loop on the worker's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import RLock
from typing import Any, Final

from storage_core import BrokerUnavailableError, Clock

LOG_EVERY_S: Final = 30.0


class BrokerWatch:
    """Logs that the broker is away, at a bounded pace, and that it is back."""

    def __init__(self, clock: Clock, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        self._clock = clock
        self._log = log
        self._lock = RLock()
        self._since = self._reason = ""
        self._since_s: float | None = None
        self._logged_s = 0.0

    @property
    def is_away(self) -> bool:
        """Whether it did not answer when it was asked last."""
        return self._since_s is not None

    @property
    def away_since(self) -> str | None:
        """Since when it has been away; None of one that answers."""
        return None if self._since_s is None else self._since

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Take note of whether what is asked inside is answered."""
        try:
            yield
        except BrokerUnavailableError as error:
            self.unanswered(str(error))
            raise
        self.answered()

    def unanswered(self, reason: str) -> None:
        """Take note of a question without an answer."""
        with self._lock:
            now_s, self._reason = self._clock.monotonic_s(), reason
            if self._since_s is None:
                moment = datetime.fromtimestamp(self._clock.now_ns() // 10**9, UTC)
                self._since, self._since_s = f"{moment:%Y-%m-%dT%H:%M:%SZ}", now_s
                self._warn(now_s, now_s)
            else:
                self.tick(now_s)

    def tick(self, now_s: float) -> None:
        """Log again that it stays away."""
        with self._lock:
            if self._since_s is not None and now_s - self._logged_s >= LOG_EVERY_S:
                self._warn(now_s, self._since_s)

    def _warn(self, now_s: float, since_s: float) -> None:
        self._logged_s = now_s
        away_s = round(now_s - since_s)
        self._log.warning("broker away", since=self._since, away_s=away_s, reason=self._reason)

    def answered(self) -> None:
        """Take note of an answer."""
        with self._lock:
            if self._since_s is not None:
                away_s = round(self._clock.monotonic_s() - self._since_s)
                self._since_s = None
                self._log.info("broker back", since=self._since, after_s=away_s)
