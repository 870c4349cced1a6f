"""A look at a stream for SQL, while what it looks at changes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from storage_core import StreamReader
from storage_core.sql.stream_snapshot import snapshot_of
from tests.log.parts.parts_lab import NAME, PartsLab


class SlowReader(StreamReader):
    """A reader behind whose look at the rows of a shard something happens, once."""

    then: Callable[[], None]

    @override
    def tail(self, *args: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        yield from super().tail(*args, **more)
        self.then()
        self.then = lambda: None


def test_rows_of_a_schema_that_comes_meanwhile_do_not_stop_a_look(root):
    lab = PartsLab(root)
    lab.append(np.random.default_rng(22), 50)
    with SlowReader.open(lab.root, NAME) as reader:
        reader.then = lambda: lab.append_orders(10)
        moment = snapshot_of(reader)
    assert sum(rows.num_rows for _, rows in moment.hot) == 50
    lab.stream.close()
