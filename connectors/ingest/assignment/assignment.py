"""The partitions a worker holds: fetched into open shards, waiting for theirs, quarantined, paused.

Only this class moves a partition: it comes, it goes, its shard is closed and opened again, it goes
back, it is quarantined. Whatever moves one discards its pending records and lets Kafka go on at its
shard's own next offset, so that what is pending never has a hole.

A record may be on its way while its partition moves: inside the call that a rebalance
interrupts, or in hand, when a round fails meanwhile. Such partitions are *touched*: the records of
the next fetch that brings any are left out, all of them, and fetched again.

Belongs to the worker's thread, and to the time between rounds: the worker has waited for the
round in flight before it calls anything here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from connectors.group.partition_shards import PausedShardError
from connectors.group.pauses import Pause, PauseWatch
from connectors.group.quarantine_notes import WHOLE_TOPIC
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.quarantine import Quarantine, is_of_topic
from connectors.ingest.assignment.shard_opening import ShardOpening
from connectors.ingest.assignment.waiting_partitions import WaitingPartitions
from connectors.ingest.lake.lake_shards import BeginningShardError
from connectors.ingest.pending_batch import PendingBatch
from connectors.kafka import Consumer, Fetched, Partition, Place
from storage_core import (
    BrokerUnavailableError,
    Clock,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)

_REOPEN_AFTER_S: Final = 2.0
# Two workers of two groups that name one lake would take a partition from each other for ever.
_TAKEN_ANEW_MAX: Final = 3
_MAY_PASS: Final = (UnavailableError, ShardPoisonedError)
# What a disk that refused a write refuses next: one that failed may be read-only since.
_OF_DISKS: Final = (*_MAY_PASS, InvalidRequestError)
# Why a shard that was poisoned cannot be opened though its disk may be well again.
_OTHERS_DOING: Final = (BrokerUnavailableError, ShardLockedError)
# What is under way, however long it takes.
_ENDS_BY_ITSELF: Final = (PausedShardError, BeginningShardError)


class Assignment:
    """What a worker holds, and where each partition goes on."""

    def __init__(  # noqa: PLR0913 - what a partition's move concerns
        self,
        consumer: Consumer,
        opening: ShardOpening,
        pending: PendingBatch,
        quarantine: Quarantine,
        pauses: PauseWatch,
        lock_wait_s: float,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        alive: Callable[[], None],
    ) -> None:
        """Hold nothing; a partition may wait for its shard for `lock_wait_s`.

        Many shards take minutes to open: `alive` is called before each that opens or closes.
        """
        self._consumer = consumer
        self._opening = opening
        self._pending = pending
        self._quarantine = quarantine
        self._pauses = pauses
        self._clock = clock
        self._log = log
        self._alive = alive
        self._waiting = WaitingPartitions(lock_wait_s, clock)
        self._touched: set[Partition] = set()
        self._taken_anew: Counter[Partition] = Counter()
        # Where each shard stood that was open here.
        self._reached: dict[Partition, int] = {}
        # The partitions whose shards are open.
        self.writers: dict[Partition, PartitionWriter] = {}
        # Those that stay ours and are let be, whatever else is the matter with them.
        self.paused: dict[Partition, Pause] = {}

    @property
    def are_any(self) -> bool:
        """Whether any partition is held, whatever becomes of it."""
        return bool(self.writers or self._waiting or self._quarantine.partitions or self.paused)

    @property
    def are_any_going_on(self) -> bool:
        """Whether any partition is fetched, or will be without a fault being mended."""
        return bool(self.writers or self._waiting or self.paused_only)

    @property
    def paused_only(self) -> Collection[Partition]:
        """The partitions that are paused and not quarantined."""
        return self.paused.keys() - self._quarantine.partitions

    @property
    def topics(self) -> set[str]:
        """The topics of which partitions are held."""
        return {at.topic for at in (*self.writers, *self.unfetched)}

    @property
    def unfetched(self) -> dict[Partition, int | None]:
        """Those held that are not fetched, and where their shards stand, if that is known."""
        quarantined = (at for at in self._quarantine.partitions if at.number != WHOLE_TOPIC)
        unfetched = (*self._waiting, *quarantined, *self.paused)
        return {at: self._reached.get(at) for at in unfetched}

    @property
    def waiting_count(self) -> int:
        """How many partitions wait for their shard."""
        return len(self._waiting)

    # --- coming and going ------------------------------------------------------------------

    def take(self, partitions: Collection[Partition]) -> None:
        """Take partitions; those whose shard is not free wait for it, unfetched.

        Those that are paused are taken, and neither opened nor fetched.

        Raises:
            ShardlogError: A shard cannot be had, and that is to stop the worker.
        """
        self._touched.update(partitions)
        self._pauses.look(self._clock.now_ns())
        paused = self._pauses.among(partitions)
        self.paused |= paused
        starts: dict[Partition, Place] = dict.fromkeys(paused, Place(0))
        faults: dict[ShardlogError, list[Partition]] = {}
        for partition, opened in self._opened([at for at in partitions if at not in paused]):
            starts[partition] = opened.place if isinstance(opened, PartitionWriter) else Place(0)
            if isinstance(opened, UnavailableError):
                self._wait_for(partition, opened)
            elif isinstance(opened, ShardlogError):
                faults.setdefault(opened, []).append(partition)
        for error, partitions_of_it in faults.items():
            self._quarantine.add(partitions_of_it, error)
        self._consumer.begin(starts)
        unfetched = starts.keys() - self.writers.keys()
        if unfetched:
            self._consumer.pause(unfetched)
        for partition in sorted(starts.keys() & self.writers.keys()):
            self._log_opened(self.writers[partition])
        self._log_paused(paused)

    def close(self, partitions: Collection[Partition]) -> None:
        """Close the shards of partitions that go; what was gathered of them is dropped."""
        for partition in partitions:
            self._taken_anew.pop(partition, None)
            self._waiting.drop(partition)
            self.paused.pop(partition, None)
        self._opening.forget(partitions)
        self._touched.difference_update(partitions)
        self._pending.drop(partitions)
        self._quarantine.forget(partitions)
        self._close(partitions)
        for partition in partitions:
            self._reached.pop(partition, None)
            self._log.info("partition closed", **_where(partition))

    def close_all(self) -> None:
        """Close every shard at the end, whatever it is doing."""
        self._close(list(self.writers))

    def _open(self, partition: Partition) -> PartitionWriter:
        self._alive()
        writer = self.writers[partition] = self._opening.open(partition)
        return writer

    def _close(self, partitions: Iterable[Partition]) -> None:
        """Close shards; what was appended to them is committed first.

        Raises:
            ShardlogError: The first failure; all are closed, or poisoned, all the same.
        """
        failures: list[ShardlogError] = []
        for writer in filter(None, [self.writers.pop(partition, None) for partition in partitions]):
            self._alive()
            self._reached[writer.partition] = writer.next
            try:
                writer.stream.close()
            except ShardlogError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _opened(
        self, partitions: Collection[Partition]
    ) -> Iterator[tuple[Partition, PartitionWriter | ShardlogError]]:
        """Open shards; what holds for all of a topic is asked once.

        And once the broker is silent no more is tried: each question takes seconds.
        """
        silence: BrokerUnavailableError | None = None
        of_topics: dict[str, ShardlogError] = {}
        self._opening.ask(partitions, is_anew=True)
        for partition in partitions:
            opened: PartitionWriter | ShardlogError | None = silence or of_topics.get(
                partition.topic
            )
            if opened is None:
                try:
                    opened = self._open(partition)
                except BrokerUnavailableError as error:
                    opened = silence = error
                except ShardlogError as error:
                    opened = error
                    if is_of_topic(error):
                        of_topics[partition.topic] = error
            yield partition, opened

    def _log_opened(self, writer: PartitionWriter) -> None:
        self._quarantine.healed(writer.partition)
        self._log.info("partition opened", **_where(writer.partition), next=writer.next)

    # --- waiting for a shard ---------------------------------------------------------------

    def try_waiting(self, now_s: float) -> None:
        """Open the shards of partitions that wait, once they are due, and of one quarantined.

        Where many are due, some of them: the others' turn is in the next call.

        What has waited for its shard or the broker as long as it may is quarantined.

        Raises:
            ShardlogError: A shard cannot be had, and that is to stop the worker.
        """
        due = self._quarantine.due(now_s, self.paused)
        if due is not None:
            self._try_again(due)
        self._opening.ask(self._waiting.due(now_s))
        for partition, waiting in self._waiting.turn(now_s):
            try:
                writer = self._open(partition)
            except ShardlogError as error:
                has_more_time = self._waiting.has_more_time(waiting, now_s)
                # A pause is seen at the next look, and ends the waiting.
                has_more_time |= isinstance(error, _ENDS_BY_ITSELF)
                if not has_more_time or not isinstance(error, _MAY_PASS):
                    is_of_disk = waiting.poison is not None and isinstance(error, _OF_DISKS)
                    is_of_disk &= not isinstance(error, _OTHERS_DOING)
                    concerned = [partition]
                    if is_of_topic(error):
                        concerned = [at for at in self._waiting if at.topic == partition.topic]
                    self.quarantine(concerned, (is_of_disk and waiting.poison) or error)
                    continue
                if not waiting.is_logged and not isinstance(error, BeginningShardError):
                    waiting.is_logged = True
                    self._log_waiting(partition, error)
                if isinstance(error, BrokerUnavailableError):
                    # The next question would take as long; the others are due in the next call.
                    return
                continue
            self._waiting.drop(partition)
            self._go_on(writer)

    def _go_on(self, writer: PartitionWriter) -> None:
        """Fetch a partition whose shard is open after all."""
        self._consumer.seek(writer.partition, writer.place)
        self._consumer.resume([writer.partition])
        self._log_opened(writer)

    def suspend(self, partition: Partition, error: ShardPoisonedError, reopens: int) -> None:
        """Close a poisoned shard and try to reopen it; its neighbours go on meanwhile.

        Args:
            partition: Whose shard it is.
            error: What poisoned it.
            reopens: How many times in a row it is now, this one included; the more, the later.
        """
        self._log.error("write failed, reopening shard", **_where(partition), reason=str(error))
        self._stop_fetching([partition])
        self._waiting.retry(partition, _REOPEN_AFTER_S * reopens, error)

    def _wait_for(self, partition: Partition, reason: UnavailableError) -> None:
        if isinstance(reason, BeginningShardError):
            # Each shard of a stream with a lake does, for a moment.
            self._waiting.queue(partition)
            return
        self._log_waiting(partition, reason)
        self._waiting.retry(partition)

    def _log_waiting(self, partition: Partition, reason: ShardlogError) -> None:
        self._log.warning("waiting for shard", **_where(partition), reason=str(reason))

    def take_anew(self, partition: Partition) -> bool:
        """Close a partition's shard and open it as if it came: from the lake, if that is due.

        Returns:
            Whether it is; not where that was so often since it came.
        """
        if self._taken_anew[partition] >= _TAKEN_ANEW_MAX:
            return False
        self._taken_anew[partition] += 1
        self._stop_fetching([partition])
        self._opening.forget([partition])
        self._touched.add(partition)
        self._waiting.queue(partition)
        return True

    # --- paused by an operator -------------------------------------------------------------

    @property
    def held(self) -> Collection[Partition]:
        """All partitions that are held, whatever becomes of them."""
        return {*self.writers, *self.unfetched}

    def pause(self, pauses: Mapping[Partition, Pause]) -> None:
        """Stop fetching partitions that stay ours, and close their shards.

        What is wrong with one goes on being reported; it is not tried while it is paused.
        """
        self.paused |= pauses
        for partition in pauses:
            self._waiting.drop(partition)
        self._stop_fetching(pauses.keys())
        self._log_paused(pauses)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Open the shards of partitions again, in turns, once nobody else holds them."""
        for partition in partitions:
            pause = self.paused.pop(partition)
            self._log.info("resumed", **_where(partition), paused_since_ms=pause.since_ms)
            if partition in self._quarantine.partitions:
                continue
            # Its log may have been cut meanwhile, which seeking on a fetched partition finds out.
            self._touched.add(partition)
            # Logged only if a command has the shard still.
            self._waiting.queue(partition)

    def try_now(self, partition: Partition) -> None:
        """Try a quarantined partition again at once."""
        self._log.info("retry requested", **_where(partition))
        self._quarantine.hasten(partition)

    def _log_paused(self, pauses: Mapping[Partition, Pause]) -> None:
        for partition, pause in pauses.items():
            reason = {"reason": pause.reason} if pause.reason else {}
            self._log.info("paused", **_where(partition), since_ms=pause.since_ms, **reason)

    # --- faults of a partition's own -------------------------------------------------------

    def quarantine(
        self, partitions: Collection[Partition], error: ShardlogError, *, is_for_good: bool = False
    ) -> None:
        """Let partitions that have a fault be, and go on with the others.

        Args:
            partitions: Those the fault concerns.
            error: The fault.
            is_for_good: Only another stream can cure it.

        Raises:
            ShardlogError: The fault, if it is to stop the worker.
        """
        # Their shards are ours until they are closed.
        tried_ns = self._clock.now_ns()
        for partition in partitions:
            self._waiting.drop(partition)
        self._stop_fetching(partitions)
        self._quarantine.add(partitions, error, is_for_good=is_for_good, tried_ns=tried_ns)

    def _try_again(self, partition: Partition) -> None:
        """Take a partition that is quarantined, if its fault is over; else put it off."""
        tried_ns = self._clock.now_ns()
        try:
            writer = self._open(partition)
        except (BrokerUnavailableError, *_ENDS_BY_ITSELF):
            self._quarantine.put_off(partition, self._clock.monotonic_s())
        except ShardlogError as error:
            concerned = (
                self._quarantine.of_topic(partition.topic) if is_of_topic(error) else [partition]
            )
            self._quarantine.add(concerned, error, tried_ns=tried_ns)
        else:
            self._touched.add(partition)
            self._go_on(writer)

    def _stop_fetching(self, partitions: Collection[Partition]) -> None:
        """Close shards of partitions that stay ours; what was gathered of them is dropped."""
        self._pending.drop(partitions)
        self._consumer.pause(partitions)
        for partition in partitions:
            try:
                self._close([partition])
            except ShardlogError as error:
                self._log.warning("closing shard failed", **_where(partition), reason=str(error))

    def quarantine_topic(self, topic: str, error: ShardlogError) -> None:
        """Let a whole topic be that has a fault.

        Raises:
            ShardlogError: The fault, if it is to stop the worker.
        """
        self._quarantine.add([Partition(topic, WHOLE_TOPIC)], error)

    def moved(self, partitions: Iterable[Partition]) -> None:
        """Take partitions whose records became durable for healthy."""
        self._quarantine.moved(partitions)

    # --- going back ------------------------------------------------------------------------

    def go_back(self, partitions: Collection[Partition]) -> None:
        """Fetch again from what is durable; what was gathered beyond it is dropped."""
        self._touched.update(partitions)
        self._rewind(partitions)

    def retake(self, partition: Partition) -> bool | None:
        """Judge anew where a partition goes on: out of range, cut, or recreated.

        Returns:
            Whether it goes on where it stood; None when its shard has to be waited for, or is
            being reopened already.

        Raises:
            ShardlogError: It cannot go on; its shard is closed.
        """
        writer = self.writers.get(partition)
        if writer is None:
            return None
        before = writer.next
        self._close([partition])
        self._touched.add(partition)
        try:
            writer = self._open(partition)
        except UnavailableError as error:
            self._wait_for(partition, error)
            self._consumer.pause([partition])
            return None
        self._rewind([partition])
        return writer.next == before

    def touched_of(self, fetched: Fetched) -> set[Partition]:
        """Return the touched partitions that records belong to; they are to be left out."""
        return self._touched & fetched.runs.keys()

    def fetch_again(self, left_out: Collection[Partition]) -> None:
        """Fetch touched partitions again whose records were left out; none is in hand any more.

        Some may stem from before. And it is seeking, on a partition that is being fetched, that
        makes Kafka compare the epoch of what is stored with its log; assigning does not.
        """
        self._touched.difference_update(left_out)
        self._rewind(self.writers.keys() & left_out)

    def _rewind(self, partitions: Iterable[Partition]) -> None:
        chosen = list(partitions)
        self._pending.drop(chosen)
        for partition in chosen:
            self._consumer.seek(partition, self.writers[partition].place)


def _where(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "shard": partition.number}
