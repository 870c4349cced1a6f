"""What an operator does at random to a topic and its workers, and the ledger that must hold.

An operation is a method that is listed in OPERATIONS; each leaves workers, pauses and shards in a
state from which any other may follow. What a shard has to hold is the broker's records from where
the shard's lineage began but for its gaps; a reset sees to it that both are what it asked for.
Records without a key are dead letters, which are retried and discarded (dead_letter_ledger.py).
"""

import inspect
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.cli.parsers import dlq
from connectors.group import Pauses
from connectors.kafka import Partition
from storage_core import StreamReader, describe_stream, shard_owners
from storage_core.sql import connect
from tests.broker.support.dead_letter_ledger import DeadLetterLedger, is_dead, retried_rows
from tests.broker.support.forked_command import ForkedCommand
from tests.broker.support.lab import CLOCK, PATIENT_S, Lab, Topic, WorkerProcess
from tests.waiting import WAIT_MAX_S, await_that

# A command is over within this time, or is killed somewhere in it.
_KILLED_WITHIN_S: Final = 0.4
# Of some commands half a second goes by before they begin.
_KILLED_LATE_S: Final = 1.2
# How often what is paused is resumed behind an operation.
_GOES_ON: Final = 0.5
_EXECUTE: Final = ["--execute"] if "execute" in inspect.signature(dlq.discard).parameters else []
_WORKERS_MAX: Final = 3
# How many of its last lines a worker is asked for when something went wrong.
_LINES: Final = 30


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that has ended: its exit code, below zero where it was killed, and its words."""

    code: int
    said: str


@dataclass(frozen=True, slots=True)
class _ShardFacts:
    """What a shard says of itself: its lineage, where that begins and ends, what it skipped."""

    lineage: str
    born: int
    next: int
    gaps: tuple[tuple[int, int], ...]

    def reset_to(self, target: int, lineage: str) -> "_ShardFacts":
        """Return what it says once it was reset; a lineage that begins has the new name."""
        if target < self.next:
            return _ShardFacts(lineage, target, target, ())
        skipped = ((self.next, target),) if target > self.next else ()
        return _ShardFacts(self.lineage, self.born, target, (*self.gaps, *skipped))

    def is_to_hold(self, offset: int) -> bool:
        """Tell whether a record of the partition has to be there."""
        return offset >= self.born and not any(start <= offset < end for start, end in self.gaps)


class RandomOperator:
    """Who works on the partitions of one topic, seeded by the lab's chance."""

    def __init__(self, lab: Lab, topic: Topic, directory: Path) -> None:
        self._lab = lab
        self._topic = topic
        self._directory = directory
        self._commands = 0
        self._dead_letters = DeadLetterLedger(lab, topic)
        # What is to be done next; all comes once before any comes again.
        self._deck: list[Callable[[RandomOperator], None]] = []
        self._shards = [partition.number for partition in topic.partitions()]
        self._workers: list[WorkerProcess] = []
        # Where each paused shard stands, once its owner has closed it.
        self._standing: dict[int, int] = {}
        # What was done, for whoever reads a failure.
        self.done: list[str] = []

    def start_worker(self) -> None:
        """Start a worker; that of another way to fetch than the one before it."""
        worker = self._lab.doomed(self._topic, stream__null_key="dead-letter")
        # Before that a signal ends it as it ends any process.
        worker.await_event("started")
        self._workers.append(worker)

    def await_all_stored(self) -> None:
        """Wait until every shard is there."""
        await_that(
            lambda: self._lab.committed(self._topic).keys() == set(self._shards), "all shards"
        )

    def act(self) -> None:
        """Do something, and see that what is paused stands still."""
        if not self._deck:
            self._deck = self._lab.chance.sample(OPERATIONS, len(OPERATIONS))
        operation = self._deck.pop()
        self.done.append(operation.__name__)
        operation(self)
        self._await_one_worker()
        if self._standing and self._lab.chance.random() < _GOES_ON:
            # Or soon all would be paused, and nothing new to work on.
            self._resume(list(self._standing))
        self._expect_paused_to_stand()

    def story(self) -> str:
        """Return what was done, and what workers said last, for whoever reads a failure."""
        last = ["\n".join(worker.said().splitlines()[-_LINES:]) for worker in self._workers]
        return "\n".join([f"done so far: {self.done}", *last])

    # --- operations ------------------------------------------------------------------------

    def pause(self) -> None:
        """Pause some partitions, or all."""
        shards = self._some()
        ran = self._run("pause", shards)
        assert ran.code == 0, ran
        self._expect_closed(shards)

    def resume(self) -> None:
        """Resume some partitions, or all, paused or not."""
        self._resume(self._some())

    def _resume(self, shards: Collection[int]) -> None:
        ran = self._run("resume", shards)
        assert ran.code == 0, ran
        self._forget_resumed()

    def kill_command(self) -> None:
        """Kill a command somewhere in it; what it left is one of both."""
        verb, shards = self._lab.chance.choice(["pause", "resume"]), self._some()
        ran = self._run(verb, shards, kill_after_s=self._lab.chance.uniform(0, _KILLED_WITHIN_S))
        assert ran.code in (0, -9), ran
        self._expect_closed([shard for shard in self._shards if self._is_paused(shard)])
        self._forget_resumed()

    def kill_worker(self) -> None:
        """Kill a worker, and start another one."""
        self._chosen_worker().kill()
        self.start_worker()

    def stop_worker(self) -> None:
        """Stop a worker; the others take over."""
        worker = self._chosen_worker()
        assert worker.stop() == 0, worker.said()

    def add_worker(self) -> None:
        """Start a worker beside the others."""
        if len(self._running()) < _WORKERS_MAX:
            self.start_worker()

    def damage_and_retry(self) -> None:
        """Lose a shard's disk while it is paused, and have it tried again once it is back."""
        shard = self._lab.chance.choice(self._shards)
        paused = self._run("pause", [shard])
        assert paused.code == 0, paused
        place = describe_stream(self._lab.root, self._topic.name).directories[shard]
        away = self._directory / "lost disk"
        # The stream may be paused as a whole, and all but this one are to stay so.
        place.rename(away)
        self._run("resume", [shard], "--wait=0")
        self._standing.pop(shard, None)
        note = self._lab.root / "~quarantine" / f"{self._topic.name}~{shard}.json"
        self._await_one_worker()
        await_that(note.exists, f"a note on shard {shard}")
        # Nobody has made it anew meanwhile, or this fails.
        away.rename(place)
        # A rebalance may take it from the worker that was to try it; whoever is next has tried it.
        await_that(
            lambda: not note.exists() or self._run("retry", [shard], "--wait=2").code in (0, 2),
            f"shard {shard} taken again",
        )
        self._forget_resumed()

    def reset(self) -> None:
        """Have a paused shard go on from another offset, to either side, or from the same."""
        shard, ends = self._paused_one(self._dead_letters.shards), self._topic.ends()
        before = self._facts(shard)
        sides = (0, before.next), (before.next, ends[shard])
        target = self._lab.chance.randint(*self._lab.chance.choice(sides))
        ran = self._run(
            "reset",
            [shard],
            f"--to-offset={target}",
            "--execute",
            f"--bootstrap={self._lab.bootstrap}",
            f"--group={self._topic.name}",
            kill_after_s=self._some_time_or_none(),
        )
        after = self._facts(shard)
        wanted = before.reset_to(target, after.lineage)
        assert ran.code in (0, -9), ran
        assert after == wanted or (ran.code != 0 and after == before), (ran, before, wanted, after)
        assert (after.lineage == before.lineage) == (target >= before.next or after == before)
        if after.lineage != before.lineage:
            self._dead_letters.begin_lineage(shard)
        self._standing[shard] = after.next

    def retry_dead_letters(self) -> None:
        """Store dead letters of a paused shard as rows, whose keys workers do not take."""
        self._work_through_dead_letters("retry", [])

    def discard_dead_letters(self) -> None:
        """Discard dead letters of a paused shard."""
        self._work_through_dead_letters("discard", _EXECUTE)

    def _work_through_dead_letters(self, verb: str, options: list[str]) -> None:
        shard = self._paused_one([at for at in self._shards if self._dead_letters.waiting(at)])
        waiting = self._dead_letters.waiting(shard)
        # Half of the time from the first on, half of the time up to the last.
        first, last = sorted(self._lab.chance.choices(waiting or [0], k=2))
        first, last = self._lab.chance.choice([0, first]), self._lab.chance.choice([last, 10**9])
        chosen = [offset for offset in waiting if first <= offset <= last]
        ran = self._run(
            verb,
            [shard],
            f"--offsets={first}..{last}",
            *options,
            kill_after_s=self._some_time_or_none(),
            of="dlq",
        )
        assert ran.code in (0, -9), ran
        self._dead_letters.note(verb, shard, chosen, is_done=ran.code == 0)

    def _facts(self, shard: int) -> "_ShardFacts":
        with StreamReader.open(self._lab.root, self._topic.name) as reader:
            committed, gaps = reader.committed()[shard], tuple(reader.gaps()[shard])
            return _ShardFacts(reader.lineage(shard), reader.born(shard), committed, gaps)

    # --- what must hold --------------------------------------------------------------------

    def finish(self) -> tuple[int, int, int]:
        """Resume everything, and expect each record once, in its lineage.

        Returns:
            How many rows the ledger, a read and a query count.
        """
        ran = self._run("resume", self._shards)
        assert ran.code == 0, ran
        self._await_one_worker()
        self._lab.await_no_lag(self._topic)
        held, stored = self._topic.holds(), self._lab.stored(self._topic)
        rows = 0
        for shard in self._shards:
            facts = self._facts(shard)
            wanted = [row for row in held[shard] if facts.is_to_hold(row[0])]
            sound, dead = ([row for row in wanted if is_dead(row) == of] for of in (False, True))
            assert stored[shard] == sound, f"shard {shard} differs from its partition"
            retried = retried_rows(stored, shard)
            rows += len(sound) + self._dead_letters.expect(shard, dead, retried)
        read, queried = self._counted()
        for worker in self._running():
            assert worker.stop() == 0, worker.said()
        return rows, read, queried

    def _counted(self) -> tuple[int, int]:
        """Return how many rows a read and a query count."""
        with StreamReader.open(self._lab.root, self._topic.name) as reader:
            reader.refresh()
            read = reader.read().num_rows
        with connect(self._lab.root) as streams:
            query = f'SELECT count(*) FROM "{self._topic.name}"'
            ((count,),) = streams.sql(query).fetchall()
        return read, count

    def _expect_closed(self, shards: Collection[int]) -> None:
        owners: dict[int, object] = {}

        def are_closed() -> bool:
            owners.update(shard_owners(self._lab.root, self._topic.name))
            return all(owners[shard] is None for shard in shards)

        await_that(are_closed, f"shards {sorted(shards)} closed: {owners}")
        committed = self._lab.committed(self._topic)
        for shard in shards:
            self._standing.setdefault(shard, committed[shard])

    def _expect_paused_to_stand(self) -> None:
        committed = self._lab.committed(self._topic)
        stands = {shard: committed[shard] for shard in self._standing}
        assert stands == self._standing, "a paused shard has moved"

    def _forget_resumed(self) -> None:
        self._standing = {
            shard: end for shard, end in self._standing.items() if self._is_paused(shard)
        }

    def _is_paused(self, shard: int) -> bool:
        return Pauses(self._lab.root).of(Partition(self._topic.name, shard)) is not None

    # --- the parts -------------------------------------------------------------------------

    def _some(self) -> list[int]:
        return self._lab.chance.sample(self._shards, self._lab.chance.randint(1, len(self._shards)))

    def _paused_one(self, preferred: Sequence[int]) -> int:
        """Pause a shard and return it, closed; one of those preferred, where there is any."""
        shard = self._lab.chance.choice(preferred or self._shards)
        paused = self._run("pause", [shard])
        assert paused.code == 0, paused
        self._expect_closed([shard])
        return shard

    def _some_time_or_none(self) -> float | None:
        """Return after which time a command is killed, None for half of them."""
        return self._lab.chance.choice([None, self._lab.chance.uniform(0, _KILLED_LATE_S)])

    def _running(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.process.poll() is None]

    def _chosen_worker(self) -> WorkerProcess:
        return self._lab.chance.choice(self._running())

    def _await_one_worker(self) -> None:
        """See to it that one runs: what all others left has to be taken by somebody."""
        if not self._running():
            self.start_worker()

    def _run(
        self,
        verb: str,
        shards: Collection[int],
        *options: str,
        kill_after_s: float | None = None,
        of: str = "group",
    ) -> _Command:
        self._commands += 1
        log = self._directory / f"command-{self._commands}.log"
        log.touch()
        is_all = len(shards) == len(self._shards)
        chosen = [] if is_all else [f"--partition={shard}" for shard in shards]
        # Owners that are short of processor time close their shards late.
        waits = [f"--wait={PATIENT_S}"] if verb == "pause" else []
        place = [os.fspath(self._lab.root), self._topic.name]
        arguments = [of, verb, *place, *chosen, *waits, *options]
        command = ForkedCommand(arguments, log, dict(os.environ))
        if kill_after_s is not None:
            CLOCK.sleep(kill_after_s)
            command.kill()
        code = command.wait(WAIT_MAX_S)
        self.done.append(f"{verb} {sorted(shards)} {' '.join(options)}: {code}")
        return _Command(code, log.read_text())


OPERATIONS: Final[list[Callable[[RandomOperator], None]]] = [
    RandomOperator.pause,
    RandomOperator.resume,
    RandomOperator.kill_command,
    RandomOperator.kill_worker,
    RandomOperator.stop_worker,
    RandomOperator.add_worker,
    RandomOperator.damage_and_retry,
    RandomOperator.reset,
    RandomOperator.reset,
    RandomOperator.reset,
    RandomOperator.retry_dead_letters,
    RandomOperator.retry_dead_letters,
    RandomOperator.discard_dead_letters,
]
