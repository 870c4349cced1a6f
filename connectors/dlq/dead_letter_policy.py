"""What becomes of the dead letters that the worker's shards keep, by the policy.

    keep       they stay; beyond `records_max` of a shard the oldest go, counted and told
    forward    they are published and cleared; at `records_max` of a shard the worker waits for a
               topic that takes them, and stops over one that takes none
    stop       any that waits stops the worker

Whether a shard keeps any is known from its counters, so that a worker without dead letters pays a
comparison a shard and second. Forwarding and dropping run on a thread of their own, one pass at a
time; only at the limit does the worker's thread wait for it, so that no more come than go. Belongs
to the worker's thread; its own thread touches streams only.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Protocol

from connectors.dlq.forwarder import Forwarded, Forwarder, count_waiting, next_dead_letters
from connectors.kafka import Partition
from connectors.settings.dead_letter_settings import DeadLetterSettings
from storage_core import (
    ClosedError,
    InvalidRequestError,
    ShardlogError,
    Stream,
    UnavailableError,
)

_LOG_EVERY_S: Final = 10.0
# Between two waits the worker polls, and the group does not take it for dead.
_HOLD_MAX_S: Final = 2.0
_AGAIN_AFTER_S: Final = 5.0
_AGAIN_AFTER_MAX_S: Final = 60.0


class OpenShard(Protocol):
    """A shard that the worker has open."""

    stream: Stream
    topic_id: str


@dataclass(frozen=True, slots=True)
class _Dropped:
    count: int


_Outcome = tuple[Partition, Forwarded | _Dropped | ShardlogError | OSError]


class DeadLetterPolicy:
    """Has dead letters forwarded, dropped, or stops the worker over them, as the policy says."""

    def __init__(
        self,
        settings: DeadLetterSettings,
        kafka: dict[str, object],
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Look at nothing yet.

        Args:
            settings: The policy.
            kafka: Settings of librdkafka, by its names, as the worker's consumer has them.
            log: Where it is logged.
        """
        self._settings = settings
        self._forwarder = Forwarder(settings, kafka)
        self._log = log
        self._logged_s = float("-inf")
        self._again_after_s = _AGAIN_AFTER_S
        self._again_s = 0.0
        self._thread: threading.Thread | None = None
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        self._refusals: dict[Partition, str] = {}
        self._unlogged: Counter[tuple[str, str]] = Counter()
        self.forwarded = 0
        self.dropped = 0
        # Whether a shard keeps as many as it may, and the topic has to take some first.
        self.is_full = False

    def tick(self, shards: Mapping[Partition, OpenShard], now_s: float) -> None:
        """Take over what was done, and do what is due.

        Raises:
            InvalidRequestError: There is a dead letter, and the policy is to stop.
            UnavailableError: The topic takes none, and a shard keeps as many as it may.
        """
        self._conclude(now_s)
        self._report(now_s)
        waiting = {
            partition: count
            for partition, shard in shards.items()
            if (count := count_waiting(shard.stream, partition.number))
        }
        for partition, count in waiting.items():
            self._refuse_to_go_on(partition, count)
        limit = self._settings.records_max
        if not self.is_under_way and now_s >= self._again_s:
            if self._settings.policy == "forward":
                self._forwarder.keep(set(shards))
                self._begin({partition: shards[partition] for partition in waiting})
            elif limit:
                over = [partition for partition, count in waiting.items() if count > limit]
                self._begin({partition: shards[partition] for partition in over})
        most = max(waiting.values(), default=0)
        self.is_full = self._settings.policy == "forward" and 0 < limit <= most
        if self.is_full:
            # A moment at most: between two waits the worker polls.
            self._wait(_HOLD_MAX_S)

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._thread is not None and self._thread.is_alive()

    def settle(self, wait_s: float) -> None:
        """End the pass under way, wait for it for so long, and log its outcome."""
        self._forwarder.end()
        self._wait(wait_s)
        self._conclude(0.0)
        self._logged_s = float("-inf")
        self._report(0.0)

    def _refuse_to_go_on(self, partition: Partition, count: int) -> None:
        settings = self._settings
        if settings.policy == "stop":
            message = (
                f'{count} dead letters, and dead_letters.policy is "stop": `shardlog dlq show` '
                'says why; with "keep" they stay and the worker goes on, with "forward" they are '
                "published first"
            )
            raise InvalidRequestError(message, stream=partition.topic, shard=partition.number)
        reason = self._refusals.get(partition)
        if settings.policy == "forward" and reason and 0 < settings.records_max <= count:
            message = (
                f"{count} dead letters wait, as many as dead_letters.records_max allows, and topic "
                f"{settings.topic_for(partition.topic)!r} refuses them: {reason}; they are kept: "
                "repair the topic and start again, or raise the limit"
            )
            raise UnavailableError(message, stream=partition.topic, shard=partition.number)

    def _wait(self, wait_s: float) -> None:
        if self._thread is not None:
            self._thread.join(wait_s)

    # --- passes ----------------------------------------------------------------------------

    def _begin(self, shards: Mapping[Partition, OpenShard]) -> None:
        if not shards:
            return
        pass_ = [(partition, shard.stream, shard.topic_id) for partition, shard in shards.items()]
        # A daemon: the end of a process waits neither for a broker nor for a disk that hangs.
        self._thread = threading.Thread(
            target=self._run_pass, args=(pass_,), name="shardlog-dead letters", daemon=True
        )
        self._thread.start()

    def _run_pass(self, pass_: list[tuple[Partition, Stream, str]]) -> None:
        is_forwarding = self._settings.policy == "forward"
        for partition, stream, topic_id in pass_:
            try:
                if is_forwarding:
                    self._outcomes.put(
                        (partition, self._forwarder.forward(partition, stream, topic_id))
                    )
                else:
                    self._outcomes.put((partition, _Dropped(self._drop_oldest(partition, stream))))
            except ClosedError:
                continue
            except (ShardlogError, OSError) as error:
                self._outcomes.put((partition, error))

    def _drop_oldest(self, partition: Partition, stream: Stream) -> int:
        """Let the oldest go that are beyond the limit; return how many."""
        dropped, start = 0, 0
        excess = count_waiting(stream, partition.number) - self._settings.records_max
        while dropped < excess:
            oldest = next_dead_letters(stream, partition.number, start)[: excess - dropped]
            if not oldest:
                # The rest is not committed yet.
                break
            addresses = [address for address, _ in oldest]
            dropped += stream.clear_dead_letters(partition.number, addresses, dropped=True)
            start = addresses[-1] + 1
        return dropped

    # --- reporting -------------------------------------------------------------------------

    def _conclude(self, now_s: float) -> None:
        """Take over what passes have done since."""
        failed: dict[Partition, str] = {}
        came = False
        while not self._outcomes.empty():
            partition, outcome = self._outcomes.get()
            came = True
            self._refusals.pop(partition, None)
            match outcome:
                case Forwarded():
                    self.forwarded += outcome.cleared
                    self._unlogged[partition.topic, "forwarded"] += outcome.cleared
                    if outcome.reason is not None:
                        failed[partition] = outcome.reason
                case _Dropped():
                    self.dropped += outcome.count
                    self._unlogged[partition.topic, "dropped"] += outcome.count
                case _:
                    failed[partition] = str(outcome)
        if not came:
            return
        self._refusals.update(failed)
        if not failed:
            self._again_after_s = _AGAIN_AFTER_S
            return
        self._again_s = now_s + self._again_after_s
        self._again_after_s = min(2 * self._again_after_s, _AGAIN_AFTER_MAX_S)
        for partition, reason in failed.items():
            self._log.warning(
                "dead letters not forwarded",
                topic=partition.topic,
                shard=partition.number,
                reason=reason,
            )

    def _report(self, now_s: float) -> None:
        """Log how many were forwarded and dropped, at a bounded pace."""
        if now_s - self._logged_s < _LOG_EVERY_S:
            return
        for (topic, outcome), count in self._unlogged.items():
            if not count:
                continue
            self._logged_s = now_s
            if outcome == "forwarded":
                where = self._settings.topic_for(topic)
                self._log.info("dead letters forwarded", topic=topic, to=where, count=count)
            else:
                limit = self._settings.records_max
                self._log.warning("dead letters dropped", topic=topic, count=count, limit=limit)
        self._unlogged.clear()
