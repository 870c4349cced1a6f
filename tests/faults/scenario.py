"""A stream in this process on a lossy disk, and what was promised to its caller."""

from functools import partial

from storage_core import Environment, Stream, StreamOptions
from storage_core.engine import rocksdb
from storage_core.engine.segments import APART_BYTES_MIN, SEGMENT_BYTES
from tests.faults.ledger import Ledger, stored_rows
from tests.faults.lossy_mount import LossyMount
from tests.faults.workload import SHARDS, lane_row, transaction_rows
from tests.faults.writer import each_a_write, table_of

STREAM = "disk"


class Scenario:
    """A stream on a lossy disk, and what was promised to its caller."""

    def __init__(
        self,
        disk: LossyMount,
        apart_bytes_min: int = APART_BYTES_MIN,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.disk = disk
        open_store = partial(
            rocksdb.open_store, apart_bytes_min=apart_bytes_min, segment_bytes=segment_bytes
        )
        self._environment = Environment(open_store=open_store)
        self.root = disk.path / "root"
        self.ledger = Ledger()
        self.rows = {0: 0, 1: 0}
        Stream.create(self.root, STREAM, StreamOptions(shards=SHARDS, block_records=64)).close()

    def open(self) -> Stream:
        """Open the stream for writing."""
        return Stream.open(self.root, STREAM, environment=self._environment)

    def append(self, stream: Stream, lane: int, count: int) -> None:
        """Append rows one by one; they are not promised yet."""
        for _ in range(count):
            stream.append(*lane_row(lane, self.rows[lane]))
            self.rows[lane] += 1

    def append_batch(self, stream: Stream, lane: int, count: int) -> None:
        """Append rows as one batch."""
        start = self.rows[lane]
        stream.append_batch(table_of([lane_row(lane, start + i) for i in range(count)]))
        self.rows[lane] += count

    def commit(self, stream: Stream) -> None:
        """Commit, and hold the stream to it."""
        appended = dict(self.rows)
        self.ledger.raise_committed(stream.commit())
        self.ledger.lanes.update(appended)

    def run_transaction(self, stream: Stream, number: int) -> None:
        """Append a whole transaction, and hold the stream to it."""
        rows = transaction_rows(number)
        with stream.transaction(f"t{number}", len(rows)) as staged:
            parts = (rows[start : start + 20] for start in range(0, len(rows), 20))
            for table in each_a_write(map(table_of, parts)):
                staged.append_batch(table)
        self.ledger.transactions.add(number)

    def run(self) -> None:
        """Do everything once; the first error ends it."""
        with self.open() as stream:
            self.append(stream, 0, 150)
            self.commit(stream)
            self.append_batch(stream, 1, 300)
            self.commit(stream)
            self.run_transaction(stream, 9)
            self.append(stream, 0, 10)
            self.commit(stream)

    def expect_promises_kept(self) -> None:
        """Open the stream, check everything, append some more to a lane that is new."""
        with self.open() as stream:
            ends = stream.commit()
            shards = {
                shard: list(stored_rows(stream.tail(shard, 0, end))) for shard, end in ends.items()
            }
            self.ledger.check(shards, ends)
            assert stream.verify().is_clean
            lane = max([*self.rows, *self.ledger.lanes]) + 1
            self.rows = {lane: 0}
            self.append(stream, lane, 40)
            self.commit(stream)
