"""The lab: a copy of a topic that is published, and the runs that lie beside its table.

lab.seal(100, 150)            the records of some offsets, as parts; `publish` publishes them
lab.read()                    what the runs say of all that is published
lab.check()                   the runs have the heads of the rows that are published
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core import StreamReader
from storage_core.format.keys import INT64_MIN
from storage_core.lake.app_id import stream_of
from storage_core.lake.heads.run_heads import heads_of_rows, merged_heads
from storage_core.lake.heads.run_merging import NEIGHBOURS
from storage_core.lake.heads.run_names import notes_among, runs_among
from storage_core.lake.heads.runs import ShardHeadsRead, read_runs, stored_runs
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.repair.repair import repair_lake
from storage_core.lake.table import LakeTable
from tests.lake.support.stores import DirectoryStore, Store
from tests.log.topics import NAME, TopicCopy
from tests.log.workbench import batch_of

SHARD: Final = 3
BORN: Final = 100
IDS: Final = 7
STEP: Final = 10
# The ends of so many publishes that their runs are merged, and of one less.
FULL: Final = [BORN + STEP * number for number in range(NEIGHBOURS + 1)]
NEARLY: Final = FULL[:-1]
# So many rows behind its id's newest a row is late; each eleventh one is.
_BEHIND: Final = 60


class HeadsLab:
    """A copy of a topic, its writer, and its table."""

    def __init__(self, root: Path, store: Store | None = None, **options: Any) -> None:
        self.store = store or DirectoryStore(root)
        self.target = self.store.target()
        self.copy = TopicCopy(root / "log", block_records=20, **options)
        self.copy.add({SHARD: BORN})
        self.copy.open(SHARD)
        self.has_keys = options.get("key_mode") == "dictionary"
        # All that were ever committed, whether or not they have expired since.
        self._rows: list[pa.Table] = []

    def append(self, start: int, end: int, dead: dict[int, bytes] | None = None) -> None:
        """Store the records of some offsets, of which some are late; some may be dead letters."""
        addresses = [at for at in range(start, end) if at not in (dead or {})]
        ids = [at % IDS for at in addresses]
        times = [at - _BEHIND * (at % 11 == 0) for at in addresses]
        if self.has_keys:
            keys = [b"device-%d" % one if one else None for one in ids]
            batch = batch_of(times, key=keys).drop_columns(["secondary"])
        else:
            batch = batch_of(times, secondary=ids)
        self.copy.stream.append_batch(batch, shard=SHARD, addresses=addresses, dead_letters=dead)
        self.copy.stream.commit()
        self._rows.append(self._rows_from(start))

    def seal(self, start: int, end: int, dead: dict[int, bytes] | None = None) -> "HeadsLab":
        """Store and seal the records of some offsets."""
        self.append(start, end, dead)
        self.copy.stream.seal()
        return self

    def publish_each(self, *ends: int) -> "HeadsLab":
        """Store and publish records up to each of some offsets, one publish for each."""
        for start, end in pairwise(ends):
            self.seal(start, end).publish()
        return self

    def publish(self) -> ShardPublished:
        """Publish all that is sealed."""
        return publish_stream(self.copy.root, NAME, self.target).shards[SHARD]

    def table(self) -> LakeTable:
        """Return the table as it is now."""
        with StreamReader.open(self.copy.root, NAME) as reader:
            table = LakeTable.open(self.target, stream_of(reader))
        assert table is not None
        return table

    def read(self, begin: int = BORN, end: int | None = None) -> ShardHeadsRead:
        """Return what the runs say of what is published, or of some of it."""
        table = self.table()
        return read_runs(table, SHARD, begin, end or table.published(SHARD) or BORN)

    def ranges(self) -> list[tuple[int, int]]:
        """Return the addresses of each run there is."""
        return [(run.begin, run.end) for run in runs_among(stored_runs(self.table(), SHARD))]

    def paths(self) -> list[str]:
        """Return the paths of all runs."""
        return [run.path for run in runs_among(stored_runs(self.table(), SHARD))]

    def paths_of_notes(self) -> list[str]:
        """Return the paths of runs that have notes alone."""
        return [run.path for run in notes_among(stored_runs(self.table(), SHARD))]

    def damage(self, path: str) -> None:
        """Let a byte of a run be another."""
        data = bytearray(self.store.read(self.target, path))
        data[len(data) // 2] ^= 1
        self.store.write(self.target, path, bytes(data))

    def expected(self, end: int) -> pa.Table:
        """Return the heads of all rows that were ever committed below an address."""
        rows: Any = pa.concat_tables(self._rows)
        below: Any = pa.array(rows.column("address").to_numpy() < end)
        return heads_of_rows(rows.filter(below), has_keys=self.has_keys)

    def check(self, *, is_whole: bool = True) -> None:
        """Compare what the runs say with the rows of the log that are published.

        Heads of rows that have expired may be missing; of what is not whole others too.
        """
        read = self.read()
        if not is_whole:
            # A head of a run may be older than that of another, which is missing.
            expected = self.expected(self.table().published(SHARD) or BORN)
            both = merged_heads([read.heads, expected])
            assert both.to_pylist() == expected.to_pylist()
            return
        assert (read.missing, read.damaged) == ((), ())
        heads = read.heads.to_pylist()
        rows = self.expected(self.table().published(SHARD) or BORN).to_pylist()
        assert [head for head in heads if head not in rows] == []
        floor = INT64_MIN if read.notes is None else read.notes.floor
        live = [head for head in rows if head["primary"] >= floor]
        assert [head for head in live if head not in heads] == []

    def repair(self) -> int:
        """Write runs again that are missing or damaged; return how many were."""
        return repair_lake(self.copy.root, NAME, self.target).runs_written

    def _rows_from(self, start: int) -> pa.Table:
        """Return the rows of the log from an address on."""
        name = "key" if self.has_keys else "secondary"
        columns = [name, "primary", "address", "state"]
        return pa.Table.from_batches(self.copy.stream.tail(SHARD, start, columns=columns))

    def release(self) -> None:
        """Close the writer."""
        self.copy.release()
