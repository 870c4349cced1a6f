"""The ingest worker: consumes, gathers rounds, hands them to the commit path, keeps ownership.

One thread polls (rebalances, records, errors), turns records into rows and decides who owns
what; it alone touches the consumer and the feeds. The syncs of a round run on threads of their
own while the next one is gathered, one round at a time. Whatever closes or moves a shard (a
rebalance, a stop, a poisoned shard) first waits for the round in flight, bounded.

Group mode takes what the group gives; static mode takes the partitions of the settings. A
shard that another process still holds, or a broker that is silent, is tried again until
`lock_wait_s` has passed.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from connectors.commit_round import RoundInFlight, RoundWork, commit_round
from connectors.gathering import Gathering
from connectors.kafka_client import FIELDS, Admin, Consumer, Messages, Partition, Place, fault_of
from connectors.options import WorkerOptions
from connectors.ownership import Ownership, check_writable
from connectors.partition_faults import PartitionFaults
from connectors.topic_identity import TopicIdentities
from connectors.worker_counts import WorkerCounts
from storage_core import (
    Clock,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)

CONSUME_RECORDS: Final = 1_000
_CONSUME_WAIT_S: Final = 0.005
_IDLE_WAIT_S: Final = 0.1
_ADVANCE_EVERY_S: Final = 1.0
_IDENTITY_EVERY_S: Final = 10.0
_GROUP_EVERY_S: Final = 1.0
_RETRY_EVERY_S: Final = 0.25
_UNPOLLED_MAX_S: Final = 2.0
_BEHIND_LINGERS: Final = 10
_REOPEN_AFTER_S: Final = 2.0
_REOPENS_MAX: Final = 5
_COMMITTERS: Final = 4
# Rounds' worth of records that may gather while one is in flight; then fetching pauses.
_GATHERED_ROUNDS_MAX: Final = 2


@dataclass(slots=True)
class Waiting:
    """A partition that is ours but whose shard cannot be opened yet."""

    until_s: float
    next_try_s: float
    reopens: int = 0


class Worker:
    """One worker process's loop. `run` returns after `stop`, or raises what stopped it."""

    def __init__(self, options: WorkerOptions, clock: Clock, log: Any) -> None:  # noqa: ANN401 - structlog
        """Connect; nothing is consumed before `run`."""
        self._options = options
        self._clock = clock
        self._log = log
        self._admin = Admin(options.kafka_settings)
        self._consumer = Consumer(options.kafka_settings)
        self._identities = TopicIdentities(self._admin, clock)
        self._ownership = Ownership(options, self._consumer, self._identities, log)
        self._committers = ThreadPoolExecutor(_COMMITTERS, "shardlog-commit")
        self._gathered = Gathering(
            options.stream.mapping_rules,
            options.topics[0] if len(options.topics) == 1 else None,
            options.round_records_max,
            options.round_bytes_max,
        )
        self._in_flight: RoundInFlight | None = None
        self._waiting: dict[Partition, Waiting] = {}
        self._touched: set[Partition] = set()
        self._failure: Exception | None = None
        self._is_stopping = False
        self._stop_reason = ""
        self._is_in_callback = False
        self._is_behind = False
        self._advance_due_s = self._identity_due_s = self._group_due_s = 0.0
        self._to_tell: set[Partition] = set()
        self._faults = PartitionFaults(log)
        self.counts = WorkerCounts()

    def stop(self, reason: str = "asked to") -> None:
        """Ask for a clean stop. From any thread, or a signal handler: nothing is logged here."""
        self._stop_reason = reason
        self._is_stopping = True

    def run(self) -> None:
        """Consume until `stop`; then finish, flush, commit, leave the group, close.

        Raises:
            ShardlogError: What stopped it. What was acknowledged is durable all the same.
        """
        check_writable(self._options.root)
        self._admin.await_broker(self._options.broker_wait_s)
        try:
            self._join()
            while not self._is_stopping:
                self._step()
            self._log.info("stopping", reason=self._stop_reason)
            self._finish()
        finally:
            self._leave()
        self._raise_failure()

    # --- the loop --------------------------------------------------------------------------

    def _join(self) -> None:
        options = self._options
        if options.mode == "static":
            chosen = [Partition(t, n) for t, ns in options.partitions.items() for n in ns]
            self._assigned(chosen)
            self._raise_failure()
            return
        missing = sorted(set(options.topics) - set(self._admin.partitions()))
        if missing:
            self._log.warning("no such topics yet, waiting for them", topics=missing)
        self._consumer.subscribe(options.subscription, self._assigned, self._revoked, self._lost)

    def _step(self) -> None:
        is_idle = not self._gathered.count and self._in_flight is None
        if is_idle:
            messages = self._consumer.consume(1, _IDLE_WAIT_S)
        else:
            messages = self._consumer.consume(CONSUME_RECORDS, _CONSUME_WAIT_S)
        self._is_behind = len(messages) == CONSUME_RECORDS
        self._raise_failure()
        now_s = self._clock.monotonic_s()
        if messages:
            self._gather(messages, now_s)
        if self._in_flight is not None and self._in_flight.is_done():
            self._conclude(self._in_flight)
        if self._waiting:
            self._try_waiting(now_s)
        if self._in_flight is None:
            self._begin_if_due(now_s)
        elif self._gathered.rounds >= _GATHERED_ROUNDS_MAX:
            self._hold_back()
        self._tell_group(now_s)

    def _gather(self, messages: Messages, now_s: float) -> None:
        """Keep records for the next round."""
        if any(map(FIELDS.error, messages)):
            messages = self._without_faults(messages)
        if self._touched:
            messages = self._without_touched(messages)
        self._gathered.add(messages, self._ownership.feeds, now_s)
        self.counts.consumed += len(messages)

    def _begin_if_due(self, now_s: float) -> None:
        count = self._gathered.count
        waited_s = now_s - self._gathered.since_s
        is_full = self._gathered.rounds >= 1
        linger_s = self._options.linger_ms / 1000
        if self._is_behind:
            # Old records are not made younger by small rounds; large ones cost less.
            linger_s *= _BEHIND_LINGERS
        is_due = count > 0 and (is_full or waited_s >= linger_s)
        is_advance = count == 0 and now_s >= self._advance_due_s
        feeds = self._ownership.feeds
        if not feeds or not (is_due or is_advance):
            return
        positions = self._consumer.positions(feeds)
        if is_advance:
            self._advance_due_s = now_s + _ADVANCE_EVERY_S
            moved = any(place > feeds[at].next for at, place in positions.items())
            if not moved and now_s < self._identity_due_s:
                return
        self._identity_due_s = now_s + _IDENTITY_EVERY_S
        self._begin(positions)

    def _begin(self, positions: dict[Partition, int]) -> None:
        """Hand over what was gathered.

        Positions count all that librdkafka has handed out. Inside one of its callbacks that may
        be more than `consume` has returned yet, so there none are given.
        """
        work = RoundWork(self._gathered.take(), positions, dict(self._ownership.feeds))
        try:
            self._in_flight = commit_round(work, self._identities, self._committers)
        except UnavailableError as error:
            self._go_back(error)

    def _conclude(self, round_: RoundInFlight) -> None:
        """Take over what a finished round has moved; go back where it failed."""
        self._in_flight = None
        try:
            report = round_.acknowledge()
        except UnavailableError as error:
            self._go_back(error)
            return
        self.counts.add(report)
        self._faults.forget(report.moved)
        self._to_tell.update(report.moved)
        for partition, poison in report.poisoned.items():
            self._suspend(partition, poison)

    def _go_back(self, reason: UnavailableError) -> None:
        """Drop a round and fetch it again."""
        self._log.warning("round dropped, going back", reason=str(reason))
        self.counts.dropped_rounds += 1
        self._rewind(self._ownership.feeds)

    def _hold_back(self) -> None:
        """Let the round in flight catch up: at first by not polling, then by not fetching.

        A pause throws away what was fetched ahead and costs half a second, so it is for disks
        that hang; polling goes on under it, or the group would take the partitions away.
        """
        round_ = self._in_flight
        if round_ is None:
            return
        if not round_.is_done(_UNPOLLED_MAX_S):
            self._consumer.pause(self._ownership.feeds)
            while not round_.is_done():
                messages = self._consumer.consume(CONSUME_RECORDS, _IDLE_WAIT_S)
                self._raise_failure()
                if messages:
                    self._gather(messages, self._clock.monotonic_s())
            self._consumer.resume(self._ownership.feeds)
        # A rebalance may have waited for it meanwhile.
        if self._in_flight is round_:
            self._conclude(round_)

    def _finish(self) -> None:
        """Make durable what was gathered.

        Raises:
            UnavailableError: The cluster did not say in time that the topics are still the ones;
                nothing is lost, the next owner fetches it again.
        """
        self._settle(self._options.stop_timeout_s)
        dropped = self.counts.dropped_rounds
        self._flush(self._options.stop_timeout_s)
        self._tell_group(float("inf"))
        if self.counts.dropped_rounds > dropped:
            message = "the last records consumed were not stored, since Kafka did not answer"
            raise UnavailableError(message)

    def _leave(self) -> None:
        """Leave the group and let go of everything, whatever happened before."""
        self._gathered.take()
        try:
            self._consumer.close()
        finally:
            is_idle = self._in_flight is None or self._in_flight.is_done(_UNPOLLED_MAX_S)
            self._committers.shutdown(wait=is_idle, cancel_futures=True)
            self._ownership.give_back(list(self._ownership.feeds))

    # --- rounds from within other work -----------------------------------------------------

    def _settle(self, wait_s: float) -> None:
        """Wait for the round in flight.

        Raises:
            UnavailableError: It takes too long; its shards stay as they are, and ours.
        """
        if self._in_flight is None:
            return
        if not self._in_flight.is_done(wait_s):
            message = f"a round was not durable within {wait_s:g} s; the disk hardly answers"
            raise UnavailableError(message)
        self._conclude(self._in_flight)

    def _flush(self, wait_s: float) -> None:
        """Make durable what has been gathered, now."""
        if not self._gathered.count or not self._ownership.feeds:
            return
        self._begin({})
        self._settle(wait_s)

    # --- ownership -------------------------------------------------------------------------

    def _assigned(self, partitions: list[Partition]) -> None:
        """Take partitions; those whose shard is not free wait for it, unfetched."""
        self._guarded(lambda: self._take_all(partitions))

    def _take_all(self, partitions: list[Partition]) -> None:
        self._settle(self._options.stop_timeout_s)
        starts: dict[Partition, Place] = {}
        waiting: list[Partition] = []
        self._touched.update(partitions)
        for partition in partitions:
            try:
                starts[partition] = self._ownership.take(partition).place
            except UnavailableError as error:
                self._wait_for(partition, error)
                starts[partition] = Place(0)
                waiting.append(partition)
        self._consumer.begin(starts)
        if waiting:
            self._consumer.pause(waiting)
        for partition in set(starts) - set(waiting):
            self._log.info("owned", **_where(partition), next=starts[partition].offset)

    def _revoked(self, partitions: list[Partition]) -> None:
        """Make durable what was consumed of them, close them, give them back."""

        def give() -> None:
            self._settle(self._options.stop_timeout_s)
            self._flush(self._options.stop_timeout_s)
            self._tell_group(float("inf"))
            self._close(partitions)

        self._guarded(give)
        self._consumer.let_go(partitions)

    def _lost(self, partitions: list[Partition]) -> None:
        """Drop what is not durable of them; another process may own them by now."""

        def drop() -> None:
            self._settle(self._options.stop_timeout_s)
            self._gathered.drop(set(partitions))
            self._close(partitions)

        self._guarded(drop)
        self._consumer.let_go(partitions)

    def _close(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        for partition in gone:
            self._waiting.pop(partition, None)
            self._to_tell.discard(partition)
        self._ownership.give_back(gone)
        for partition in gone:
            self._log.info("let go", **_where(partition))

    def _try_waiting(self, now_s: float) -> None:
        if self._in_flight is not None:
            return
        for partition, waiting in list(self._waiting.items()):
            if now_s < waiting.next_try_s:
                continue
            try:
                feed = self._ownership.take(partition)
            except (UnavailableError, ShardPoisonedError):
                if now_s >= waiting.until_s:
                    raise
                waiting.next_try_s = now_s + _RETRY_EVERY_S
                continue
            del self._waiting[partition]
            self._consumer.seek(partition, feed.place)
            self._consumer.resume([partition])
            self._log.info("owned", **_where(partition), next=feed.next)

    def _suspend(self, partition: Partition, error: ShardPoisonedError) -> None:
        """Close a poisoned shard and try to reopen it; its neighbours go on meanwhile."""
        self._log.error("shard refused a write, reopening", **_where(partition), reason=str(error))
        reopens = self.counts.reopened(partition)
        if reopens > _REOPENS_MAX or self._is_stopping:
            raise error
        self._gathered.drop({partition})
        self._consumer.pause([partition])
        try:
            self._ownership.give_back([partition])
        except ShardlogError as closing:
            self._log.warning("closing", **_where(partition), reason=str(closing))
        now_s = self._clock.monotonic_s()
        self._waiting[partition] = Waiting(
            now_s + self._options.lock_wait_s, now_s + _REOPEN_AFTER_S * reopens
        )

    def _guarded(self, change: Callable[[], None]) -> None:
        """Run a change of ownership inside librdkafka's callback; keep what it raises."""
        self._is_in_callback = True
        try:
            change()
        except Exception as error:  # noqa: BLE001 - raised again once the callback is left
            self._failure = self._failure or error
        finally:
            self._is_in_callback = False

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # --- going back ------------------------------------------------------------------------

    def _rewind(self, partitions: Iterable[Partition]) -> None:
        """Fetch again from what is durable; what was gathered beyond it is dropped."""
        chosen = set(partitions)
        self._gathered.drop(chosen)
        if self._is_in_callback:
            # The call it interrupts may still return records from before.
            self._touched |= chosen
        for partition in chosen:
            feed = self._ownership.feeds[partition]
            self._consumer.seek(partition, feed.place)

    def _without_touched(self, messages: Messages) -> Messages:
        """Drop the first records of partitions that were taken, and fetch them again.

        Some may stem from before. And it is seeking, on a partition that is being fetched, that
        makes Kafka compare the epoch of what is stored with its log; assigning does not.
        """
        touched = {_partition_of(message) for message in messages} & self._touched
        if not touched:
            return messages
        self._touched -= touched
        self._settle(self._options.stop_timeout_s)
        self._rewind(touched & set(self._ownership.feeds))
        return [m for m in messages if _partition_of(m) not in touched]

    def _without_faults(self, messages: Messages) -> Messages:
        """Act on error events; return the records."""
        for message in messages:
            fault = fault_of(message) if FIELDS.error(message) is not None else None
            if fault is None:
                continue
            self._faults.tell(fault, self._clock.monotonic_s())
            if fault.is_refused_offset and fault.partition in self._ownership.feeds:
                self._settle(self._options.stop_timeout_s)
                self._retake(fault.partition)
        return [m for m in messages if FIELDS.error(m) is None]

    def _retake(self, partition: Partition) -> None:
        """Judge anew where a partition goes on: overtaken, cut, or made again.

        Raises:
            ForeignDataError: Kafka refuses the offset again though its log spans it: the log was
                cut below what is stored and written anew.
        """
        self._flush(self._options.stop_timeout_s)
        feed = self._ownership.feeds.get(partition)
        if feed is None:
            # Waiting for the round has shown that its disk failed; it is being reopened.
            return
        before = feed.next
        self._ownership.give_back([partition])
        self._touched.add(partition)
        try:
            feed = self._ownership.take(partition)
        except UnavailableError as error:
            self._wait_for(partition, error)
            self._consumer.pause([partition])
            return
        self._faults.judge_refusal(partition, is_same_place=feed.next == before)
        self._consumer.seek(partition, feed.place)

    def _wait_for(self, partition: Partition, reason: UnavailableError) -> None:
        self._log.warning("waiting", **_where(partition), reason=str(reason))
        now_s = self._clock.monotonic_s()
        until_s = now_s + self._options.lock_wait_s
        self._waiting[partition] = Waiting(until_s, now_s + _RETRY_EVERY_S)

    def _tell_group(self, now_s: float) -> None:
        """Commit the group's offsets now and then, for those who watch lag."""
        if not self._to_tell or now_s < self._group_due_s:
            return
        self._group_due_s = now_s + _GROUP_EVERY_S if now_s != float("inf") else 0.0
        feeds = self._ownership.feeds
        places = {at: feeds[at].group_place for at in self._to_tell if at in feeds}
        self._to_tell.clear()
        if places:
            self._consumer.commit_group(places, is_last=now_s == float("inf"))


def _partition_of(message: Any) -> Partition:  # noqa: ANN401 - a message of librdkafka
    return Partition(message.topic(), message.partition())


def _where(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "shard": partition.number}
