"""How much subscriptions take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Options of subscriptions.

    Attributes:
        subscriptions_max: How many there are at once.
        queue_rows_max: Rows that wait for a subscriber; beyond, it reads the log by itself.
        queue_bytes_max: Bytes of them.
        rows_at_once: Rows that are read at once.
        bytes_at_once: Bytes after which it is enough.
        pause_s: How long a live reader pauses before it looks again for rows that another process
            stored; where there are many, longer.
        heartbeat_s: How long nothing is told at most.
    """

    subscriptions_max: int = 1_000
    queue_rows_max: int = 8_192
    queue_bytes_max: int = 8 * 2**20
    rows_at_once: int = 4_096
    bytes_at_once: int = 4 * 2**20
    pause_s: float = 0.01
    heartbeat_s: float = 15.0
