"""What became of each dead letter of a topic: it waits, it is a row, or it is discarded; once.

A dead letter leaves its shard only where somebody asked for it. So the ledger notes, by shard and
lineage, which offsets each command was to take, and what a command that ended well has surely done
with them; of one that was killed either may be true of each. The sums must come out at the end.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from connectors.group.retry_shards import retry_shard_of
from storage_core import StreamReader
from tests.broker.support.lab import Lab, Row, Topic

# A record without its offset: its row in a retry shard has an address of its own.
_Record = tuple[bytes | None, bytes | None, int]


def is_dead(row: Row) -> bool:
    """Tell whether a record cannot be a row by the settings of the workers, whose keys are ids."""
    return row[1] is None


@dataclass(slots=True)
class _Noted:
    """Offsets of one shard in its lineage."""

    to_retry: set[int] = field(default_factory=set)
    to_discard: set[int] = field(default_factory=set)
    retried: set[int] = field(default_factory=set)
    discarded: set[int] = field(default_factory=set)


class DeadLetterLedger:
    """The dead letters of one topic."""

    def __init__(self, lab: Lab, topic: Topic) -> None:
        self._lab = lab
        self._topic = topic
        self._noted: defaultdict[int, _Noted] = defaultdict(_Noted)

    @property
    def shards(self) -> list[int]:
        """Those of which some were to be retried or discarded."""
        return [at for at, noted in self._noted.items() if noted.to_retry or noted.to_discard]

    def waiting(self, shard: int) -> list[int]:
        """Return the offsets of those that a shard keeps."""
        with StreamReader.open(self._lab.root, self._topic.name) as reader:
            reader.refresh()
            return [offset for offset, _ in reader.dead_letters(shard)]

    def note(self, verb: str, shard: int, chosen: Collection[int], *, is_done: bool) -> None:
        """Note what a command was to take, and whether it ended well."""
        noted = self._noted[shard]
        if verb == "retry":
            noted.to_retry.update(chosen)
        else:
            noted.to_discard.update(chosen)
        if not is_done:
            return
        left = set(self.waiting(shard)).intersection(chosen)
        assert not left, f"{verb} has left dead letters of shard {shard}: {sorted(left)}"
        # One that was killed before may have stored some that the next only cleared.
        unsure = noted.to_retry if verb == "discard" else set()
        (noted.retried if verb == "retry" else noted.discarded).update(set(chosen) - unsure)

    def begin_lineage(self, shard: int) -> None:
        """Forget what was in a log that is archived, its retried rows too."""
        self._noted.pop(shard, None)

    def expect(self, shard: int, dead: Iterable[Row], retried: Iterable[Row]) -> int:
        """Compare a shard's dead letters with the records that had to become some.

        Args:
            shard: The shard.
            dead: The broker's records.
            retried: The rows of its retry shard.

        Returns:
            How many are rows.
        """
        noted, waiting = self._noted[shard], set(self.waiting(shard))
        records: dict[int, _Record] = {row[0]: row[1:] for row in dead}
        rows = Counter(row[1:] for row in retried)

        def of(offsets: Iterable[int]) -> Counter[_Record]:
            return Counter(records[offset] for offset in offsets)

        unknown = waiting - records.keys()
        assert not unknown, f"shard {shard} keeps what is no dead letter: {sorted(unknown)}"
        gone = records.keys() - waiting
        lost = gone - noted.to_retry - noted.to_discard
        assert not lost, f"dead letters of shard {shard} nobody asked for are gone: {sorted(lost)}"
        assert not of(noted.retried) - rows, f"retried ones of shard {shard} are no rows"
        doubled = rows - of(noted.to_retry & gone - noted.discarded)
        assert not doubled, f"retry shard of {shard} has rows of its own: {doubled}"
        discarded = of(gone) - rows
        assert not discarded - of(noted.to_discard), f"not asked to discard of {shard}: {discarded}"
        with StreamReader.open(self._lab.root, self._topic.name) as reader:
            reader.refresh()
            stats = reader.stats(shard)
        counted = (
            stats.dead_letters_waiting,
            stats.dead_letters_retried,
            stats.dead_letters_discarded,
        )
        assert counted == (len(waiting), rows.total(), discarded.total()), f"counters of {shard}"
        return rows.total()


def retried_rows(stored: dict[int, list[Row]], shard: int) -> list[Row]:
    """Return the rows of a shard's retry shard, if it has one; their addresses have no hole."""
    rows = stored.get(retry_shard_of(shard), [])
    assert [row[0] for row in rows] == list(range(len(rows)))
    return rows
