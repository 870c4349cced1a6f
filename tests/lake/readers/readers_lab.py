"""The lab: a stream of every kind of row whose schema gets a field, and what its readers find.

lab.fill_parts()     rows in several parts, with late ones, tombstones and values of a schema
lab.evolve()         the schema gets a field
lab.compact()        parts are merged, and the table follows
lab.visible_rows(shardlog)  the rows that the stream shows, as text
"""

from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core import SchemaEntry, StreamReader
from storage_core.avro import encode_batch, frame_of
from storage_core.lake.table import LakeTable
from storage_core.platform.clock import SystemClock
from storage_core.testing import ManualClock
from tests.lake.publish.publish_lab import PublishLab
from tests.lake.readers.rows import rows_of
from tests.log.parts.parts_lab import FIRST_MS, NAME, schema_of
from tests.unit.connectors.command import Shardlog

_SIZE: Final[dict[str, Any]] = {"name": "size", "type": "int"}
_HUE: Final[dict[str, Any]] = {"name": "hue", "type": ["null", "string"], "default": None}
_FIRST: Final = schema_of([_SIZE], "Thing")
_SECOND: Final = schema_of([_SIZE, _HUE], "Thing")
_ID: Final = 3
_STEPS: Final = 3
# Late rows are at most so much older than the first of their day.
_LATE_MAX_S: Final = 60
# What is compared: columns of the log, and of fields.
OF_THE_LOG: Final = ("shard", "address", "primary", "secondary", "state", "schema_id")
COLUMNS: Final = (*OF_THE_LOG, "payload", "temperature", "humidity", "level", "size")
NEW_COLUMN: Final = "hue"
_DAY_S: Final = 86_400


class ReadersLab(PublishLab):
    """A stream and its table."""

    has_evolved = False
    _day_began = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return (*COLUMNS, NEW_COLUMN) if self.has_evolved else COLUMNS

    @property
    def quoted(self) -> str:
        """The same as SQL has them."""
        return ", ".join(f'"{name}"' for name in self.columns)

    def fill_parts(self) -> None:
        """Publish rows of every kind and values of the schema, some steps of them."""
        for _ in range(_STEPS):
            self.fill(40)
            self._append_things()
            self.stream.seal()
            self.publish()

    def evolve(self) -> None:
        """Let the schema get a field."""
        self.has_evolved = True

    def compact(self) -> None:
        """Merge parts, and publish that."""
        assert self.stream.compact().parts_obsolete > 0
        self.publish()

    def begin_day(self) -> None:
        """Let the next rows be of the next day."""
        self._count += _DAY_S
        self._day_began = self._count

    def expire_days_before(self) -> None:
        """Let the rows of the days before expire, and publish that."""
        self.expire(self._count - self._day_began + _LATE_MAX_S)
        self.publish()

    def vacuum(self) -> list[str]:
        """Delete what no version has that can be read, a day later; return what that was."""
        ahead = ManualClock(SystemClock().now_ns() + _DAY_S * 10**9)
        table = LakeTable.open(self.target, self._stream_of_table(), clock=ahead)
        assert table is not None
        table.expire_history(timedelta(0))
        return table.vacuum(timedelta(0), dry_run=False)

    def visible_rows(self, shardlog: Shardlog) -> list[str]:
        """Return the rows that `shardlog sql` finds, which are those that the stream shows."""
        answer = self.root.with_name("answer.parquet")
        query = f"SELECT {self.quoted} FROM {NAME}"
        ran = shardlog("sql", self.root, query, "--to", answer, "--overwrite")
        assert ran.code == 0, ran.err
        rows = pq.ParquetFile(answer).read().to_pylist()
        with StreamReader.open(self.root, NAME) as reader:
            own = reader.read(columns=list(OF_THE_LOG)).to_pylist()
        assert rows_of({name: row[name] for name in OF_THE_LOG} for row in rows) == rows_of(own)
        return rows_of(rows)

    def _append_things(self) -> None:
        schema, registry_id = (_SECOND, 51) if self.has_evolved else (_FIRST, 50)
        values: dict[str, list[Any]] = {"size": [7, 8, 9], NEW_COLUMN: ["red", None, "é"]}
        names = [field.name for field in schema.fields]
        things = pa.table({name: values[name] for name in names}, schema.arrow_schema())
        count = len(things)
        times = FIRST_MS + (self._count + np.arange(count)) * 1000
        self._count += count
        columns: dict[str, Any] = {
            "primary": pa.array(times),
            "secondary": pa.array([_ID] * count, pa.int32()),
            "payload": encode_batch(things, schema, frame=frame_of(schema, registry_id)),
            "schema": pa.array([0] * count, pa.int32()),
        }
        entry = SchemaEntry(registry_id, schema.identity, schema.text)
        self.stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=[entry])
        self.stream.commit()
        self._ever_visible |= self.visible()
