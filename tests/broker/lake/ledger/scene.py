"""What one round of the ledger is made of: a topic, a store, machines that share it, one alone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage_core.lake import LakeTarget
from tests.broker.dead_letters.test_forwarding import dlq_of, forwarded
from tests.broker.lake.ledger.machines import Machine
from tests.broker.lake.ledger.union import dead_letters_of
from tests.broker.lake.ledger.values import Values
from tests.broker.support.lab import Lab
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore, DirectoryStore

PARTITIONS: Final = 8
# A store that is away for a moment is not waited for.
_SHORT: Final = {
    "timeout": "10s",
    "connect_timeout": "5s",
    "max_retries": "2",
    "retry_timeout": "5s",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the table is.

    Attributes:
        through: By the way that workers take.
        straight: By a way that nothing happens to.
        proxy: What stands before the store, of one that is a server.
    """

    through: LakeTarget
    straight: LakeTarget
    proxy: S3Proxy | None = None


@contextmanager
def behind_proxy(bucket: BucketStore) -> Iterator[Place]:
    """Give a place in a bucket."""
    with S3Proxy(bucket.url) as proxy:
        yield Place(bucket.through(proxy.url).target(**_SHORT), bucket.target(), proxy)


def in_directory(directory: Path) -> Place:
    """Return a place in a directory."""
    target = DirectoryStore(directory).target()
    return Place(target, target)


class Scene:
    """The machines of one round; the lab's chance says how their stream is kept.

    Attributes:
        values: What the topic's records have as values.
        machines: Those that share the topic.
        alone: The one that stores it for itself.
    """

    def __init__(  # noqa: PLR0913 - what a round is made of
        self, lab: Lab, directory: Path, place: Place, machines: int, key_mode: str, registry: str
    ) -> None:
        """Make the topic, and the schemas of its values; nothing runs yet."""
        self.lab = lab
        self.place = place
        self.topic = lab.topic(PARTITIONS)
        self.values = Values(registry, self.topic.name)
        lab.make_value = self.values.made
        self._dlq = dlq_of(lab, self.topic) if lab.chance.random() < 0.5 else None
        rows = {
            "stream__key_mode": key_mode,
            "stream__null_key": "dead-letter",
            "stream__value_format": "avro",
            "schema__registry__url": registry,
        }
        shared = {**rows, **self._lake(), **self._forwarding()}
        self.machines = [
            Machine(lab, self.topic, directory / f"machine {number}", shared)
            for number in range(machines)
        ]
        group = {"kafka__group__id": f"{self.topic.name}-alone"}
        self.alone = Machine(lab, self.topic, directory / "alone", {**rows, **group})

    def _lake(self) -> dict[str, Any]:
        chance, target = self.lab.chance, self.place.through
        return {
            "stream__lake": target.uri,
            "stream__lake_lag_seconds": 2,
            "stream__seal_rows": chance.choice([50, 1000]),
            "stream__keep_local_hours": chance.choice([None, 0]),
            "stream__keep_hot_hours": chance.choice([None, 1e-6]),
            "stream__keep_replaced_minutes": 0,
            "lake__options": json.dumps(dict(target.options)),
            "lake__revoke_wait_seconds": chance.choice([0, 5]),
            "maintain_every_s": 2,
        }

    def _forwarding(self) -> dict[str, Any]:
        if self._dlq is None:
            return {}
        return {"dead_letters__policy": "forward", "dead_letters__topic": self._dlq.name}

    def began_from_lake(self) -> int:
        """Return how many shards began from the lake."""
        return sum(machine.events("shard begins from the lake") for machine in self.machines)

    def expect_dead_letters(self) -> int:
        """Compare the dead letters of all with those of who stored all alone; return how many."""
        with self.alone.reading() as reader:
            ends = reader.committed()
            wanted = dead_letters_of(reader, ends)
        waiting: dict[tuple[int, int], bytes] = {}
        for machine in self.machines:
            if shards := machine.whole_shards(ends):
                with machine.reading() as reader:
                    waiting |= dead_letters_of(reader, shards)
        assert waiting.items() <= wanted.items(), "dead letters that nobody produced"
        origins = [origin for origin, _ in forwarded(self._dlq)] if self._dlq else []
        sent = {(origin.partition, origin.offset) for origin in origins}
        lost = sorted(wanted.keys() - waiting.keys() - sent)
        assert not lost, f"{len(lost)} dead letters are lost, as {lost[:3]}"
        return len(wanted)
