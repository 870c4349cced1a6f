"""The ingest worker: the loop that consumes, gathers, and has rounds made durable.

One thread polls (rebalances, records, errors) and turns records into rows; it alone touches the
consumer and what it holds. Beside it rounds.py makes durable what was gathered, on a thread of its
own that touches streams only. Whatever closes or moves a shard (a rebalance, a stop, a poisoned
shard) first waits for the round in flight; then holdings.py moves it, which knows nothing of
rounds.

Group mode takes what the group gives; static mode takes the partitions of the settings. A
shard that another process still holds, or a broker that is silent, is tried again until
`lock_wait_s` has passed. What has a fault of its own is set aside and the others go on
(set_aside.py); a worker that has nothing else left ends with that fault.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from connectors.dlq.letter_policy import LetterKeeper
from connectors.ingest.assignment.assignment import Holdings
from connectors.ingest.assignment.assignment_watch import AssignmentWatch
from connectors.ingest.assignment.deleted_topics import DeletedTopics
from connectors.ingest.assignment.first_topics import first_topics
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.assignment.partition_faults import PartitionFaults, refusal_of
from connectors.ingest.assignment.quarantine import SetAside
from connectors.ingest.assignment.quarantine_notes import WHOLE_TOPIC, SetAsideNotes
from connectors.ingest.assignment.shard_opening import ShardOpening, stream_mark
from connectors.ingest.assignment.topic_identity import TopicIdentities
from connectors.ingest.assignment.unfetched import Unfetched, UnfetchedEnds
from connectors.ingest.commit_round import RoundReport
from connectors.ingest.dead_letter_watch import DeadLetterWatch
from connectors.ingest.expiry_timer import ExpiryTimer
from connectors.ingest.fetch_policy import WAIT_MOST_S, CallSize, Pace
from connectors.ingest.maintenance_timer import MaintenanceTimer
from connectors.ingest.pending_batch import Gathering
from connectors.ingest.rounds import Rounds
from connectors.ingest.start_checks import check_writable, files_missing
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.progress import Progress
from connectors.ingest.status.worker_state import Standings, WorkerStanding
from connectors.ingest.values.schema_waits import schema_waits
from connectors.kafka import Admin, Consumer, Fetched, Partition, PartitionFault, Stretches
from connectors.settings.checks import GROUP
from connectors.settings.options import WorkerOptions
from storage_core import Clock, InvalidRequestError, ShardlogError, UnavailableError

_UNPOLLED_MAX_S: Final = 2.0
_REOPENS_MAX: Final = 5


class Worker:
    """One worker process's loop. `run` returns after `stop`, or raises what stopped it."""

    def __init__(self, options: WorkerOptions, clock: Clock, log: Any) -> None:  # noqa: ANN401 - structlog
        """Connect; nothing is consumed before `run`."""
        self._options = options
        self._clock = clock
        self._log = log
        self._admin = Admin(options.kafka_settings)
        self._consumer = Consumer(options.kafka_settings, options.fetch)
        self._broker = BrokerWatch(clock, log)
        self._identities = TopicIdentities(self._admin, clock, self._broker)
        self.counts = WorkerCounts()
        self._gathered = Gathering(self.counts, options.round_records_max, options.round_bytes_max)
        self._opening = ShardOpening(options, self._consumer, self._identities, log)
        mark_of = partial(stream_mark, options.root)
        notes = SetAsideNotes(options.root)
        self.standings = Standings(self._standing, clock)
        self._aside = SetAside(options.on_fault, notes, mark_of, clock, log)
        self._holdings = Holdings(
            self._consumer,
            self._opening,
            self._gathered,
            self._aside,
            options.lock_wait_s,
            clock,
            log,
            self.standings.alive,
        )
        self._schemas = schema_waits(
            options.value_schemas, self._holdings.feeds, self._consumer, clock, log
        )
        group, topics = str(options.kafka_settings[GROUP]), options.topics
        self._unfetched = UnfetchedEnds(self._admin, group)
        self._deleted = DeletedTopics(topics, self._admin, self._aside, mark_of)
        self._faults = PartitionFaults(log)
        self._watch = AssignmentWatch(options.topics, self._topics_there, log)
        self._dead_letters = DeadLetterWatch(options.dead_letters_only_max, log)
        self._letters = LetterKeeper(options.dead_letters, options.kafka_settings, log)
        self._group = GroupOffsets(self._consumer)
        call = CallSize.of(is_native=self._consumer.is_native)
        self._pace = Pace(options.linger_ms / 1000, call)
        self._rounds = Rounds(
            self._consumer,
            self._identities,
            self._gathered,
            self._pace,
            options.stop_timeout_s,
            self._concluded,
        )
        self._expiry = ExpiryTimer(options.expire_every_s, self.counts, log)
        self._maintenance = MaintenanceTimer(
            options.root, options.maintain_every_s, options.round_records_max, self.counts, log
        )
        # Whether anybody may ask how it stands; what costs time is counted only then.
        self.is_watched = False
        self._has_joined = False
        self._is_stopping = False
        self._is_leaving = False
        self._stop_reason = ""
        # Whether a thread of its own still hangs in a write at its end; it has shards open then.
        self.is_left_hanging = False
        # Whether one still waits for a registry; the end of the process would wait for it, too.
        self.is_left_asking = False
        self._progress = Progress(
            self.counts, self._consumer.known_ends, self._broker, clock.monotonic_s(), log
        )

    def stop(self, reason: str = "asked to") -> None:
        """Ask for a clean stop. From any thread, or a signal handler: nothing is logged here."""
        self._stop_reason = reason
        self._is_stopping = True

    def tell_progress(self) -> None:
        """Have the line about progress told soon. From any thread, or a signal handler."""
        self._progress.ask()

    def run(self) -> None:
        """Consume until `stop`; then finish, flush, commit, leave the group, close.

        Raises:
            ShardlogError: What stopped it, or the oldest fault of what is set aside at its end.
                What was acknowledged is durable all the same.
        """
        check_writable(self._options.root)
        self._admin.await_broker(self._options.broker_wait_s, self._is_still_wanted)
        try:
            if not self._is_stopping:
                self._join()
            while not self._is_stopping:
                self._step()
                self._end_if_all_is_set_aside()
            self.standings.is_over = True
            self._log.info("stopping", reason=self._stop_reason)
            self._finish()
            # Leaving gives back what is set aside too.
            fault = self._aside.oldest
        finally:
            self._leave()
        self._consumer.raise_failed_callback()
        if fault is not None:
            raise fault

    def _is_still_wanted(self) -> bool:
        self.standings.alive()
        return not self._is_stopping

    def _standing(self, now_s: float) -> WorkerStanding:
        """Return how it stands, between two fetches."""
        counts, feeds = self.counts, self._holdings.feeds
        ends = self._consumer.known_ends(list(feeds))
        return WorkerStanding(
            taken_s=now_s,
            shards=tuple(feed.standing(ends.get(at)) for at, feed in feeds.items()),
            waiting=self._holdings.waiting_count,
            set_aside=len(self._aside.partitions),
            unfetched=self._unfetched_standings(),
            faults=self._aside.kinds,
            has_no_topic=self._deleted.are_all_gone,
            has_joined=self._has_joined,
            is_broker_away=self._broker.is_away,
            totals={
                **counts.totals,
                "dropped_rounds": counts.dropped_rounds,
                "compacted": counts.compacted,
                "maintenance_skipped": counts.maintenance_skipped,
                "maintenance_failed": counts.maintenance_failed,
                "builders_died": counts.builders_died,
                "letters_forwarded": self._letters.forwarded,
                "letters_dropped": self._letters.dropped,
            },
            dead_letters=dict(counts.reasons),
            commit_s=counts.commit_s.copy(),
            lateness_s=counts.lateness_s.copy(),
        )

    # --- the loop --------------------------------------------------------------------------

    def _join(self) -> None:
        options = self._options
        self._aside.leave_topics_but(options.consumes)
        partition_counts = self._admin.partitions()
        if options.start == "latest":
            group = str(options.kafka_settings[GROUP])
            wanted = options.subscription or tuple(options.partitions)
            self._opening.first_topics = first_topics(options.root, group, wanted, partition_counts)
        if options.mode == "static":
            chosen = options.partitions.items()
            self._assigned([Partition(topic, n) for topic, numbers in chosen for n in set(numbers)])
            return
        missing = sorted(set(options.topics) - set(partition_counts))
        if missing:
            self._log.warning("no such topics yet, waiting for them", topics=missing)
        # The group may share them out; alone it would have them all.
        lacking = files_missing(sum(partition_counts.get(topic, 0) for topic in options.topics))
        if lacking is not None:
            self._log.warning("alone this worker cannot hold all partitions", reason=lacking)
        self._consumer.subscribe(options.subscription, self._assigned, self._revoked, self._lost)

    def _step(self) -> None:
        asked_s = self._clock.monotonic_s()
        is_round_out = self._rounds.in_flight is not None
        most, wait_s = self._pace.next_call(self._gathered, asked_s, is_round_out=is_round_out)
        if self._letters.is_full:
            # Fetching is polling, which must go on; what it brings may be letters.
            most = 1
        stretches = self._consumer.fetch(most, wait_s)
        now_s = self._clock.monotonic_s()
        self._pace.note_call(sum(each.count for each, _ in stretches), now_s - asked_s)
        # They came at any time during the call; one that asks for one ends with it.
        self._gather(stretches, now_s if most == 1 else asked_s)
        self._rounds.conclude_if_done()
        if self._rounds.in_flight is not None and self._pace.is_enough(self._gathered):
            self._hold_back()
        if self._rounds.in_flight is None:
            self._holdings.try_waiting(now_s)
            stuck = self._schemas.go_on(self._holdings.feeds, self._gathered)
            for partition, error in stuck.items():
                self._holdings.set_aside([partition], error)
            self._rounds.begin_if_due(self._holdings.feeds, now_s)
        self._group.tell_if_due(self._holdings.feeds, now_s)
        self._dead_letters.tell_if_due(now_s)
        self._letters.look(self._holdings.feeds, now_s)
        self._expiry.look(self._holdings.feeds, now_s)
        self._maintenance.look(self._holdings.feeds, self._ends_of, now_s)
        self._broker.tell_if_due(now_s)
        self._progress.look(
            now_s,
            self._holdings.feeds,
            self._unfetched_standings,
            waiting=self._holdings.waiting_count,
            set_aside=len(self._aside.partitions),
        )
        self._unfetched.look(now_s, self._holdings.unfetched)
        self._deleted.look(now_s, lambda: self._holdings.topics)
        self._watch.look(now_s, is_assigned=self._holdings.are_any)
        self.standings.look(now_s)

    def _unfetched_standings(self) -> tuple[Unfetched, ...]:
        kinds = self._aside.kinds
        return tuple(
            self._unfetched.standing(partition, next_, is_foreign=kinds.get(partition) == "foreign")
            for partition, next_ in self._holdings.unfetched.items()
        )

    def _ends_of(self, partitions: list[Partition]) -> Mapping[Partition, int]:
        return self._consumer.known_ends(partitions)

    def _topics_there(self, wait_s: float) -> Collection[str]:
        """Ask the broker for its topics, and take note of whether it answers."""
        with self._broker.asking():
            return self._admin.partitions(wait_s)

    def _end_if_all_is_set_aside(self) -> None:
        """End, rather than look busy, when nothing can be done but to try faults again.

        Raises:
            ShardlogError: The oldest fault.
        """
        if self._is_stopping or self._holdings.are_any_going_on:
            return
        fault = self._aside.fault_of_all(self._options.topics)
        if fault is not None:
            raise fault

    def _gather(self, stretches: Stretches, now_s: float) -> None:
        """Keep records for the next round, and act on the faults between them.

        IMPORTANT: first the records, then the fault behind them. Those before a fault of their
        partition Kafka may not have any more; those behind it stem from before whatever the fault
        made the worker do.

        A touched partition is left out of every stretch from the first on, and sought behind the
        last: what comes behind records that were left out would make a hole.
        """
        left_out: set[Partition] = set()
        for fetched, fault in stretches:
            left_out |= self._keep(fetched, now_s)
            if fault is not None:
                self._act_on(fault, now_s)
        self._holdings.fetch_again(left_out)
        self._schemas.hold()

    def _keep(self, fetched: Fetched, now_s: float) -> set[Partition]:
        """Keep records but for those of touched partitions, which are returned.

        Those that have to wait for their schemas are left out too; `hold` has them fetched again.
        """
        self.counts.brought += fetched.count
        touched = self._holdings.touched_of(fetched)
        if touched:
            # A round that fails now touches more of them.
            self._rounds.settle()
            touched = self._holdings.touched_of(fetched)
            untouched = fetched.without(touched)
            self.counts.drop(fetched.count - untouched.count)
            fetched = untouched
        admitted = 0
        for part, framed in self._schemas.admit(fetched, self._holdings.feeds):
            self._gathered.add(part, self._holdings.feeds, now_s, framed)
            admitted += part.count
        self.counts.drop(fetched.count - admitted)
        return touched

    def _act_on(self, fault: PartitionFault, now_s: float) -> None:
        """Tell what Kafka says of a partition; where that is for good, set it aside."""
        if fault.partition.number == WHOLE_TOPIC:
            self._aside.add([fault.partition], refusal_of(fault))
            return
        if fault.partition not in self._holdings.feeds:
            # Nothing is fetched of it, and why that is has been told.
            return
        try:
            self._judge(fault, now_s)
        except UnavailableError:
            raise
        except ShardlogError as error:
            self._rounds.flush(self._holdings.feeds)
            self._holdings.set_aside([fault.partition], error)

    def _judge(self, fault: PartitionFault, now_s: float) -> None:
        """Tell of a fault; where Kafka refuses the partition's offset, look where it goes on.

        Raises:
            ShardlogError: The partition cannot go on.
            UnavailableError: The worker cannot.
        """
        self._faults.tell(fault, now_s)
        if not fault.is_refused_offset:
            return
        self._rounds.flush(self._holdings.feeds)
        # Waiting for the round may have shown that its disk failed; then it is being reopened.
        is_same_place = self._holdings.retake(fault.partition)
        if is_same_place is not None:
            next_offset = self._holdings.feeds[fault.partition].next
            self._faults.judge_refusal(fault, next_offset, now_s, is_same_place=is_same_place)

    def _concluded(self, report: RoundReport) -> None:
        """Take over what a round has moved; go back where it failed."""
        self.counts.add(report)
        if self.is_watched:
            self.counts.note_lateness(report.timestamps, self._clock.now_ns() // 10**6)
        self._faults.forget(report.moved)
        self._aside.moved(report.moved)
        for partition, poison in report.poisoned.items():
            reopens = self.counts.reopened(partition)
            if reopens > _REOPENS_MAX or self._is_stopping:
                self._holdings.set_aside([partition], poison)
            else:
                self._holdings.suspend(partition, poison, reopens)
        for error in dict.fromkeys(report.failed.values()):
            concerned = [at for at, found in report.failed.items() if found is error]
            self._holdings.set_aside(concerned, error)
        if report.delayed:
            self._go_back(report.delayed)
        self._look_at_dead_letters(report)

    def _look_at_dead_letters(self, report: RoundReport) -> None:
        """Tell of them; a stream that gets nothing else is set aside."""
        letters, feeds = report.dead_letters, self._holdings.feeds
        self._dead_letters.note(letters, self._clock.monotonic_s())
        if letters:
            self._letters.look_soon()
        if self._is_stopping:
            return
        try:
            self._dead_letters.refuse_topics_of_nothing_else(letters, feeds)
        except InvalidRequestError as error:
            concerned = [partition for partition in feeds if partition.topic == error.stream]
            self._holdings.set_aside(concerned, error, is_for_good=True)

    def _go_back(self, delayed: Mapping[Partition, UnavailableError]) -> None:
        """Drop what is not durable of partitions and fetch it again."""
        if not self._broker.is_away:
            # Of a broker that is away, its watch tells.
            reason, *_ = delayed.values()
            self._log.warning("round dropped, going back", reason=str(reason))
        self.counts.dropped_rounds += 1
        self._holdings.go_back(delayed)

    def _hold_back(self) -> None:
        """Let the round in flight catch up: at first by not polling, then by not fetching.

        A pause throws away what was fetched ahead and costs half a second, so it is for disks
        that hang; polling goes on under it, or the group would take the partitions away.
        """
        round_ = self._rounds.in_flight
        if round_ is None:
            return
        if not round_.is_done(_UNPOLLED_MAX_S):
            self._consumer.pause(self._holdings.feeds)
            while not round_.is_done() and not self._is_stopping:
                stretches = self._consumer.fetch(self._pace.call.records, WAIT_MOST_S)
                self._gather(stretches, self._clock.monotonic_s())
                self.standings.look(self._clock.monotonic_s())
            self._consumer.resume(self._holdings.feeds)
        # A stop waits for it by itself.
        self._rounds.conclude_if_done()

    def _finish(self) -> None:
        """Make durable what was gathered.

        Raises:
            UnavailableError: The cluster did not say in time that the topics are still the ones,
                or a shard was busy; nothing is lost, the next owner fetches it again.
        """
        dropped = self.counts.dropped_rounds
        self._rounds.flush(self._holdings.feeds)
        self._group.tell_last(self._holdings.feeds)
        if self.counts.dropped_rounds > dropped:
            message = "the last records consumed were not stored, since no answer came in time"
            raise UnavailableError(message)

    def _leave(self) -> None:
        """Leave the group and let go of everything, whatever happened before."""
        self._is_leaving = True
        self.standings.is_over = True
        self._gathered.drop_all()
        self._letters.settle(_UNPOLLED_MAX_S)
        self.is_left_asking = self._schemas.close()
        self._expiry.settle(_UNPOLLED_MAX_S)
        self._maintenance.close(_UNPOLLED_MAX_S)
        self.is_left_hanging = self._rounds.end(_UNPOLLED_MAX_S)
        has_left = True
        try:
            has_left = self._consumer.close(self._options.stop_timeout_s)
        finally:
            if not has_left:
                # Its callbacks may yet close them; the end of the process does so in any case.
                self._log.warning("the group did not answer, left without it")
            elif not self.is_left_hanging:
                self._holdings.close_all()

    # --- what the group gives and takes, inside librdkafka's callbacks ---------------------

    def _assigned(self, partitions: list[Partition]) -> None:
        """Take them, those whose shard is not free unfetched; none of them when leaving."""
        if self._is_leaving:
            # They are revoked next; opening shards for that takes seconds.
            return
        with self.standings.taking():
            self._rounds.settle()
            self._deleted.held(partitions)
            self._holdings.take(partitions)
            self._has_joined = True

    def _revoked(self, partitions: list[Partition]) -> None:
        """Make durable what was consumed of them, close them, give them back."""
        try:
            if not self.is_left_hanging:
                self._rounds.flush(self._holdings.feeds)
                self._group.tell_last(self._holdings.feeds)
                self._holdings.close(partitions)
        finally:
            self._consumer.let_go(partitions)

    def _lost(self, partitions: list[Partition]) -> None:
        """Drop what is not durable of them; another process may own them by now."""
        # Until the group gives out partitions again, nothing is fetched.
        self._has_joined = False
        try:
            self._rounds.settle()
            self._holdings.close(partitions)
        finally:
            self._consumer.let_go(partitions)
