"""What happens to machines, partitions, the store and Kafka, as chance has it.

An operation is a method that is listed in KEEPING or LOSING; each leaves machines from which any
other may follow. All of them come once before any comes again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from connectors.kafka import Partition
from storage_core.lake import lake_status
from tests.broker.lake.ledger.machines import Machine
from tests.broker.lake.ledger.scene import Scene
from tests.waiting import WAIT_MAX_S, await_that

# What a busy machine does one after the other: join the group, begin, seal, publish.
MOVE_MAX_S: Final = 3 * WAIT_MAX_S


class Chances:
    """What happens in one round, seeded by the lab's chance."""

    def __init__(self, scene: Scene, operations: Sequence["Operation"]) -> None:
        """Nothing has happened yet.

        Args:
            scene: What things happen to.
            operations: What may happen.
        """
        self._lab, self._topic = scene.lab, scene.topic
        self._machines, self._alone = scene.machines, scene.alone
        self._target, self._proxy = scene.place.straight, scene.place.proxy
        self._operations = operations
        self._deck: list[Operation] = []
        # What has happened, for whoever reads a failure.
        self.done: list[str] = []

    def happen(self) -> None:
        """Let something happen."""
        if not self._deck:
            self._deck = self._lab.chance.sample(self._operations, len(self._operations))
        operation = self._deck.pop()
        self.done.append(operation.__name__)
        operation(self)
        if not self._running():
            self.start()

    def story(self) -> str:
        """Return what happened, and what workers said last."""
        tales = [machine.story() for machine in (*self._machines, self._alone)]
        return "\n".join([f"happened so far: {self.done}", *tales])

    def published(self) -> dict[int, int]:
        """Return up to where the table has each shard."""
        status = lake_status(self._alone.root, self._topic.name, self._target)
        return {shard: each.published or 0 for shard, each in status.shards.items()}

    # --- operations ------------------------------------------------------------------------

    def start(self) -> None:
        """Let another machine take its share."""
        if idle := [machine for machine in self._machines if not machine.is_running]:
            self._chosen(idle).start()

    def stop(self) -> None:
        """Let a machine give its partitions back, and keep its disk."""
        self._chosen(self._running()).stop(MOVE_MAX_S)

    def kill(self) -> None:
        """Kill a worker; its machine comes back one day, and its disk is old then."""
        self._chosen(self._running()).kill()

    def lose(self) -> None:
        """Lose a machine for good, when it may have rows that are not published."""
        machine = self._chosen(self._machines)
        self.done.append(machine.name)
        machine.lose()

    def lose_behind_progress(self) -> None:
        """Lose a machine once the table has grown."""
        self.progress()
        self.lose()

    def freeze(self) -> None:
        """Let a worker sleep until others own what it has, and wake beside them."""
        machine = self._chosen(self._running())
        machine.freeze()
        if not self._running():
            self.start()
        self._await_more("rows of others")
        machine.wake()

    def progress(self) -> None:
        """Let the table grow."""
        if not self._running():
            self.start()
        self._await_more("more rows in the lake")

    def forget(self) -> None:
        """Let Kafka have no more what is published, of some partitions."""
        stored = self._alone.committed()
        for shard, end in self.published().items():
            if end and self._lab.chance.random() < 0.5:
                partition = Partition(self._topic.name, shard)
                self._lab.cluster.delete_records(partition, min(end, stored[shard]))

    def refuse(self) -> None:
        """Let the store refuse all while a machine comes or goes."""
        if self._proxy is not None:
            self._proxy.fail()
            moves = [each for each in _MOVES if each in self._operations]
            self._lab.chance.choice(moves)(self)
            if not self._running():
                self.start()
            self._proxy.pass_on()

    def lose_answers(self) -> None:
        """Let the store take the next commits, and tell nobody."""
        if self._proxy is not None:
            self._proxy.lose_answers(self._lab.chance.randint(1, 3))
            self.progress()

    def misbehave(self) -> None:
        """Let the store do a little of all that stores do, from now on."""
        if self._proxy is not None:
            self._proxy.misbehave(self._lab.chance.randrange(2**32))

    # --- the begin and the end -------------------------------------------------------------

    def begin(self) -> None:
        """Let the first machine store, until the table has something of each partition."""
        self._alone.start()
        self._machines[0].start()
        partitions = len(self._topic.partitions())
        self._await(lambda: len(self._alone.committed()) == partitions, "all shards")
        self._await(lambda: all(self.published().values()), "each partition published")

    def lose_owner(self) -> None:
        """Lose a machine that has published, at last."""
        if self._proxy is not None:
            self._proxy.pass_on()
        self.progress()
        owners: list[Machine] = []

        def has_owner() -> bool:
            owners[:] = [machine for machine in self._running() if machine.worker.owned()]
            return bool(owners)

        self._await(has_owner, "a machine that has a partition")
        self._chosen(owners).lose()

    def settle(self) -> None:
        """Let all machines run and the store be sound, until each partition is stored whole."""
        if self._proxy is not None:
            self._proxy.pass_on()
        for machine in self._machines:
            if not machine.is_running:
                machine.start()
        ends = self._topic.ends()
        await_that(
            lambda: self.ends() == ends and self._alone.committed() == ends,
            lambda: f"{ends}, owners are at {self.ends()}",
            MOVE_MAX_S,
        )
        # What they have is compared while nothing of it moves.
        for machine in self._machines:
            machine.kill()

    def ends(self) -> dict[int, int]:
        """Return up to where that machine goes that has most of a partition."""
        ends: dict[int, int] = {}
        for machine in self._machines:
            for shard, end in machine.committed().items():
                ends[shard] = max(end, ends.get(shard, 0))
        return ends

    def _await_more(self, description: str) -> None:
        before = sum(self.published().values())
        self._await(lambda: sum(self.published().values()) > before, description)

    def _await(self, condition: Callable[[], bool], description: str) -> None:
        """Wait for what machines do, as long as all of them run that are to."""

        def holds() -> bool:
            self._running()
            return condition()

        await_that(holds, description, MOVE_MAX_S)

    def _running(self) -> list[Machine]:
        """Return the machines whose workers do something."""
        return [each for each in self._machines if each.is_running and not each.is_frozen]

    def _chosen(self, machines: Sequence[Machine]) -> Machine:
        return self._lab.chance.choice(machines)


Operation = Callable[[Chances], None]
# What loses no disk, and moves no partition to another.
KEEPING: Final[list[Operation]] = [
    Chances.start,
    Chances.stop,
    Chances.kill,
    Chances.progress,
    Chances.forget,
    Chances.refuse,
    Chances.lose_answers,
    Chances.misbehave,
]
LOSING: Final[list[Operation]] = [
    Chances.start,
    Chances.start,
    Chances.lose,
    Chances.lose_behind_progress,
    Chances.freeze,
]
_MOVES: Final = (Chances.start, Chances.kill, Chances.lose)
