"""The ingest worker: the loop that fetches records and has commit rounds make them durable.

One thread fetches (rebalances, records, errors) and turns records into rows; it alone touches the
consumer and what it holds. Beside it rounds.py makes durable what was gathered, on a thread of its
own that touches streams only. Whatever closes or moves a shard (a rebalance, a stop, a poisoned
shard) first waits for the round in flight; then assignment.py moves it, which knows nothing of
rounds.

This file says what a worker is made of and in which order its loop does things. What a fetch brings
goes to intake.py, what a round has done to round_results.py, what the group gives and takes to
rebalance.py.

Group mode takes what the group gives; static mode takes the partitions of the settings. A
shard that another process still holds, or a broker that is silent, is tried again until
`lock_wait_s` has passed. What has a fault of its own is quarantined and the others go on
(quarantine.py); a worker that has nothing else left ends with that fault.
"""

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from connectors.dlq.dead_letter_policy import DeadLetterPolicy
from connectors.group.pauses import PauseWatch
from connectors.group.quarantine_notes import QuarantineNotes
from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.assignment_watch import AssignmentWatch
from connectors.ingest.assignment.deleted_topics import DeletedTopics
from connectors.ingest.assignment.first_topics import first_topics
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.assignment.operator_requests import OperatorRequests
from connectors.ingest.assignment.partition_faults import PartitionFaults
from connectors.ingest.assignment.quarantine import Quarantine
from connectors.ingest.assignment.shard_opening import ShardOpening, stream_mark
from connectors.ingest.assignment.topic_identity import TopicIdentities
from connectors.ingest.assignment.unfetched import UnfetchedEnds, UnfetchedPartition
from connectors.ingest.dead_letter_watch import DeadLetterWatch
from connectors.ingest.expiry_timer import ExpiryTimer
from connectors.ingest.fetch_policy import WAIT_MOST_S, CallSize, FetchPolicy
from connectors.ingest.intake import Intake
from connectors.ingest.lake.lake_shards import LakeShards
from connectors.ingest.lake.lake_timer import LakeTimer, lake_topics
from connectors.ingest.lake.last_publish import LastPublish
from connectors.ingest.lake.other_owners import OtherOwners
from connectors.ingest.lake.topic_retentions import TopicRetentions
from connectors.ingest.maintenance_timer import MaintenanceTimer
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.periodic import Periodic
from connectors.ingest.rebalance import Rebalance
from connectors.ingest.round_results import RoundResults
from connectors.ingest.rounds import Rounds
from connectors.ingest.start_checks import check_writable, files_missing
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.progress import Progress
from connectors.ingest.status.stable_offsets import StableOffsets
from connectors.ingest.status.worker_state import LatestState, WorkerState
from connectors.ingest.values.json_values import EventValues
from connectors.ingest.values.value_schemas import ValueSchemas
from connectors.kafka import Admin, Consumer, Partition
from connectors.settings.checks import GROUP
from connectors.settings.options import WorkerOptions
from storage_core import Clock, UnavailableError

_UNPOLLED_MAX_S: Final = 2.0
# What is due at times of its own, or asked for by a signal, is looked at so often.
_OFTEN_S: Final = 0.1
_EACH_SECOND_S: Final = 1.0


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
        self.counts = WorkerCounts()
        self.latest_state = LatestState(self._state, clock)
        self._stop_reason = ""
        self._is_stopping = False
        # Whether a thread still waits for a registry; the end of the process would wait for it too.
        self.is_left_asking = False
        self._build_intake()
        self._build_periodics()

    def _build_intake(self) -> None:
        """Make what a record goes through, from its partition's assignment to its round."""
        options, clock, log = self._options, self._clock, self._log
        identities = TopicIdentities(self._admin, clock, self._broker)
        stream_of = partial(stream_mark, options.root)
        notes = QuarantineNotes(options.root)
        records_max, bytes_max = options.round_records_max, options.round_bytes_max
        self._pending = PendingBatch(self.counts, records_max, bytes_max)
        events = EventValues(options.root)
        self._opening = self._shard_opening(identities, events)
        self._quarantine = Quarantine(options.on_fault, notes, stream_of, clock, log)
        pauses = PauseWatch(options.root)
        self._assignment = Assignment(
            self._consumer,
            self._opening,
            self._pending,
            self._quarantine,
            pauses,
            options.lock_wait_s,
            clock,
            log,
            self.latest_state.alive,
        )
        writers = self._assignment.writers
        self._schemas = ValueSchemas(
            options.value_schemas, writers, self._consumer, clock, log, events
        )
        self._dead_letters = DeadLetterPolicy(options.dead_letters, options.kafka_settings, log)
        self._dead_letters_due = Periodic(
            _EACH_SECOND_S, lambda now_s: self._dead_letters.tick(self._assignment.writers, now_s)
        )
        self._dead_letter_watch = DeadLetterWatch(options.dead_letters_only_max, log)
        faults = PartitionFaults(log)
        self._results = RoundResults(
            self._assignment,
            faults,
            self._dead_letter_watch,
            self._dead_letters_due.hasten,
            self.counts,
            self._broker,
            clock,
            log,
        )
        call_size = CallSize.of(is_native=self._consumer.is_native)
        self._fetch_policy = FetchPolicy(options.linger_ms / 1000, call_size)
        self._rounds = Rounds(
            self._consumer,
            identities,
            self._pending,
            self._fetch_policy,
            options.stop_timeout_s,
            self._results.take,
        )
        self._intake = Intake(
            self._assignment, self._pending, self._schemas, self._rounds, faults, self.counts
        )
        self._group = GroupOffsets(self._consumer)
        self._requests = OperatorRequests(
            options.root, pauses, self._assignment, self._quarantine, self._group, clock
        )
        self._deleted = DeletedTopics(options.topics, self._admin, self._quarantine, stream_of)
        self._build_maintenance()
        self._rebalance = Rebalance(
            self._consumer,
            self._assignment,
            self._rounds,
            self._group,
            self._deleted,
            self._last_publish,
            self.latest_state,
        )

    def _shard_opening(self, identities: TopicIdentities, events: EventValues) -> ShardOpening:
        options, clock, log = self._options, self._clock, self._log
        lake_shards = LakeShards(options, self.counts, clock, log)
        return ShardOpening(options, self._consumer, identities, clock, log, events, lake_shards)

    def _build_maintenance(self) -> None:
        """Make what becomes of rows that are stored."""
        options, clock, log = self._options, self._clock, self._log
        every_s, records_max = options.maintain_every_s, options.round_records_max
        self._expiry = ExpiryTimer(options.expire_every_s, self.counts, log)
        is_static = options.mode == "static"
        self._other_owners = OtherOwners(self._assignment, log, is_static=is_static)
        self._lake = LakeTimer(
            options.root,
            options.lake,
            every_s,
            self.counts,
            clock,
            log,
            self._other_owners.refused,
        )
        self._maintenance = MaintenanceTimer(
            options.root, every_s, records_max, self.counts, log, self._lake.built
        )
        revoke_wait_s = options.lake.revoke_wait_seconds
        self._last_publish = LastPublish(self._maintenance, self._lake, revoke_wait_s, clock, log)
        self._retentions = TopicRetentions(self._admin)

    def _build_periodics(self) -> None:
        """List what the loop does every so often, in the order in which it does it."""
        options, log, assignment = self._options, self._log, self._assignment
        ends_of = self._consumer.cached_ends
        self._unfetched = UnfetchedEnds(self._admin, str(options.kafka_settings[GROUP]))
        self._stable = StableOffsets(self._admin)
        watch = AssignmentWatch(options.topics, self._existing_topics, log)
        begun_s = self._clock.monotonic_s()
        self._progress = Progress(self.counts, ends_of, self._broker, begun_s, log)
        self._requests_due = Periodic(_OFTEN_S, lambda _now_s: self._requests.apply())
        self._periodics = (
            Periodic(_EACH_SECOND_S, lambda now_s: self._group.commit(assignment.writers, now_s)),
            Periodic(_EACH_SECOND_S, lambda _now_s: self._requests.keep_room()),
            Periodic(_EACH_SECOND_S, self._dead_letter_watch.tick),
            self._dead_letters_due,
            Periodic(_OFTEN_S, lambda now_s: self._expiry.tick(assignment.writers, now_s)),
            Periodic(
                _OFTEN_S,
                lambda now_s: self._maintenance.tick(
                    assignment.writers, ends_of, now_s, self._lake.is_urgent
                ),
            ),
            Periodic(
                _OFTEN_S,
                lambda now_s: self._lake.tick(
                    assignment.writers, now_s, is_building=self._maintenance.is_under_way
                ),
            ),
            Periodic(
                _EACH_SECOND_S,
                lambda now_s: self._retentions.tick(now_s, lake_topics(assignment.writers)),
            ),
            Periodic(_EACH_SECOND_S, self._broker.tick),
            Periodic(_OFTEN_S, self._report_progress),
            Periodic(
                _EACH_SECOND_S, lambda now_s: self._unfetched.tick(now_s, assignment.unfetched)
            ),
            Periodic(_EACH_SECOND_S, lambda now_s: self._deleted.tick(now_s, assignment.topics)),
            Periodic(_EACH_SECOND_S, lambda now_s: self._stable.tick(now_s, assignment.held)),
            Periodic(
                _EACH_SECOND_S, lambda now_s: watch.tick(now_s, is_assigned=assignment.are_any)
            ),
        )

    def stop(self, reason: str = "asked to") -> None:
        """Ask for a clean stop. From any thread, or a signal handler: nothing is logged here."""
        self._stop_reason = reason
        self._is_stopping = self._results.is_stopping = True

    def request_progress(self) -> None:
        """Have the progress line logged soon. From any thread, or a signal handler."""
        self._progress.request()

    @property
    def is_left_hanging(self) -> bool:
        """Whether a thread still hangs in a write at the end; it has shards open then."""
        return self._rounds.is_left_hanging

    def run(self) -> None:
        """Consume until `stop`; then finish, flush, commit, leave the group, close.

        Raises:
            ShardlogError: What stopped it, or the oldest fault of what is quarantined at its end.
                What was acknowledged is durable all the same.
        """
        check_writable(self._options.root)
        self._admin.await_broker(self._options.broker_wait_s, self._is_still_wanted)
        try:
            if not self._is_stopping:
                self._join()
            while not self._is_stopping:
                self._step()
                self._end_if_all_are_quarantined()
            self.latest_state.is_over = True
            self._log.info("stopping", reason=self._stop_reason)
            self._finish()
            # Leaving gives back what is quarantined too.
            fault = self._quarantine.oldest
        finally:
            self._leave()
        self._consumer.raise_failed_callback()
        if fault is not None:
            raise fault

    def _is_still_wanted(self) -> bool:
        self.latest_state.alive()
        return not self._is_stopping

    def _join(self) -> None:
        options = self._options
        self._quarantine.leave_topics_but(options.consumes)
        # A broker that answers may be slow with this all the same.
        partition_counts = self._admin.partitions(options.broker_wait_s)
        if options.start == "latest":
            group = str(options.kafka_settings[GROUP])
            wanted = options.subscription or tuple(options.partitions)
            self._opening.first_topics = first_topics(options.root, group, wanted, partition_counts)
        if options.mode == "static":
            chosen = options.partitions.items()
            self._rebalance.assigned(
                [Partition(topic, number) for topic, numbers in chosen for number in set(numbers)]
            )
            return
        missing = sorted(set(options.topics) - set(partition_counts))
        if missing:
            self._log.warning("no such topics yet, waiting for them", topics=missing)
        # The group may share them out; alone it would have them all.
        lacking = files_missing(sum(partition_counts.get(topic, 0) for topic in options.topics))
        if lacking is not None:
            self._log.warning("alone this worker cannot hold all partitions", reason=lacking)
        self._consumer.subscribe(
            options.subscription,
            self._rebalance.assigned,
            self._rebalance.revoked,
            self._rebalance.lost,
        )

    # --- the loop --------------------------------------------------------------------------

    def _step(self) -> None:
        """Fetch once; then begin or conclude a round, and do what is due.

        1. Fetch, and take in what came.
        2. Conclude the round in flight if it is over; wait for it where too much has gathered.
        3. While none is in flight: do what operators ask, take partitions anew that another log
           publishes, try waiting partitions, and begin the next round if it is due.
        4. Do what is due every so often, in the order of the list.
        5. Answer whoever asks for the worker's state.
        """
        called_s = self._clock.monotonic_s()
        is_round_out = self._rounds.in_flight is not None
        most, wait_s = self._fetch_policy.next_call(
            self._pending, called_s, is_round_out=is_round_out
        )
        if self._dead_letters.is_full:
            # Fetching is polling, which must go on; what it brings may be dead letters.
            most = 1
            self._dead_letters_due.hasten()
        results = self._consumer.fetch(most, wait_s)  # 1
        now_s = self._clock.monotonic_s()
        count = sum(fetched.count for fetched, _ in results)
        self._fetch_policy.note_call(count, now_s - called_s)
        # They came at any time during the call; one that asks for one ends with it.
        self._intake.take(results, now_s if most == 1 else called_s)
        self._rounds.conclude_if_done()  # 2
        if self._rounds.in_flight is not None and self._fetch_policy.is_enough(self._pending):
            self._hold_back()
        if self._rounds.in_flight is None:  # 3
            self._requests_due.tick(now_s)
            self._other_owners.take_anew()
            self._assignment.try_waiting(now_s)
            stuck = self._schemas.go_on(self._assignment.writers, self._pending)
            for partition, error in stuck.items():
                self._assignment.quarantine([partition], error)
            self._rounds.begin_if_due(self._assignment.writers, now_s)
        for periodic in self._periodics:  # 4
            periodic.tick(now_s)
        self.latest_state.answer(now_s)  # 5

    def _hold_back(self) -> None:
        """Let the round in flight catch up: at first by not polling, then by not fetching.

        A pause throws away what was fetched ahead and costs half a second, so it is for disks
        that hang; polling goes on under it, or the group would take the partitions away.
        """
        round_ = self._rounds.in_flight
        if round_ is None:
            return
        if not round_.is_done(_UNPOLLED_MAX_S):
            self._consumer.pause(self._assignment.writers)
            while not round_.is_done() and not self._is_stopping:
                results = self._consumer.fetch(self._fetch_policy.call.records, WAIT_MOST_S)
                self._intake.take(results, self._clock.monotonic_s())
                self.latest_state.answer(self._clock.monotonic_s())
            self._consumer.resume(self._assignment.writers)
        # A stop waits for it by itself.
        self._rounds.conclude_if_done()

    def _report_progress(self, now_s: float) -> None:
        self._progress.tick(
            now_s,
            self._assignment.writers,
            self._unfetched_states,
            waiting=self._assignment.waiting_count,
            quarantined=len(self._quarantine.partitions),
            paused=len(self._assignment.paused_only),
        )

    def _existing_topics(self, wait_s: float) -> Collection[str]:
        """Ask the broker for its topics, and take note of whether it answers."""
        with self._broker.asking():
            return self._admin.partitions(wait_s)

    # --- how it stands ---------------------------------------------------------------------

    def _state(self, now_s: float) -> WorkerState:
        """Return the worker's state, between two fetches."""
        counts, writers = self.counts, self._assignment.writers
        ends = self._consumer.cached_ends(list(writers))
        return WorkerState(
            taken_s=now_s,
            shards=tuple(writer.state(ends.get(at)) for at, writer in writers.items()),
            waiting=self._assignment.waiting_count,
            quarantined=len(self._quarantine.partitions),
            paused=self._assignment.paused,
            unfetched=self._unfetched_states(),
            stable_offsets=self._stable.of(self._assignment.held, now_s),
            faults=self._quarantine.kinds,
            has_no_topic=self._deleted.are_all_gone,
            has_joined=self._rebalance.has_joined,
            is_broker_away=self._broker.is_away,
            totals={
                **counts.totals,
                "commit_rounds_dropped": counts.commit_rounds_dropped,
                "compacted": counts.compacted,
                "maintenance_skipped": counts.maintenance_skipped,
                "maintenance_failed": counts.maintenance_failed,
                "part_builders_died": counts.part_builders_died,
                "publishers_died": counts.publishers_died,
                "dead_letters_forwarded": self._dead_letters.forwarded,
                "dead_letters_dropped": self._dead_letters.dropped,
            },
            dead_letters=dict(counts.reasons),
            commit_s=counts.commit_s.copy(),
            lateness_s=counts.lateness_s.copy(),
            lakes=self._lake.states_of(writers),
            lake_counts=self._lake.counts_of(writers),
            retention_s=self._retentions.of(lake_topics(writers)),
        )

    def _unfetched_states(self) -> tuple[UnfetchedPartition, ...]:
        kinds = self._quarantine.kinds
        return tuple(
            self._unfetched.state(partition, next_, is_foreign=kinds.get(partition) == "foreign")
            for partition, next_ in self._assignment.unfetched.items()
        )

    # --- the end ---------------------------------------------------------------------------

    def _end_if_all_are_quarantined(self) -> None:
        """End, rather than look busy, when nothing can be done but to try faults again.

        Raises:
            ShardlogError: The oldest fault.
        """
        if self._is_stopping or self._assignment.are_any_going_on:
            return
        fault = self._quarantine.fault_of_all(self._options.topics)
        if fault is not None:
            raise fault

    def _finish(self) -> None:
        """Make durable what was gathered.

        Raises:
            UnavailableError: The cluster did not say in time that the topics are still the ones,
                or a shard was busy; nothing is lost, the next owner fetches it again.
        """
        dropped = self.counts.commit_rounds_dropped
        self._rounds.flush(self._assignment.writers)
        self._group.commit_last(self._assignment.writers)
        self._last_publish.publish(self._assignment.writers)
        if self.counts.commit_rounds_dropped > dropped:
            message = "the last records fetched were not stored, since no answer came in time"
            raise UnavailableError(message)

    def _leave(self) -> None:
        """Leave the group, end all threads and close all shards, whatever happened before."""
        self._rebalance.is_leaving = True
        self.latest_state.is_over = True
        self._pending.drop_all()
        self._dead_letters.settle(_UNPOLLED_MAX_S)
        self.is_left_asking = self._schemas.close()
        self._expiry.settle(_UNPOLLED_MAX_S)
        self._maintenance.close(_UNPOLLED_MAX_S)
        self._lake.close(_UNPOLLED_MAX_S)
        self._rounds.end(_UNPOLLED_MAX_S)
        has_left = True
        try:
            has_left = self._consumer.close(self._options.stop_timeout_s)
        finally:
            if not has_left:
                # Its callbacks may yet close them; the end of the process does so in any case.
                self._log.warning("the group did not answer, left without it")
            elif not self.is_left_hanging:
                self._assignment.close_all()
