"""The lab: a stream with rows of every kind, its Delta table, and what another library sees of it.

lab.publish()             what is sealed
lab.check()               the table has each row once, as the stream shows them
with dying(3): ...        the process dies before the third call to the table
with dying(3, behind=True): ...   behind it: the store took the call, nobody heard of it
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storage_core import StreamReader
from storage_core.lake.publication import stream_of
from storage_core.lake.publish import publish_stream
from storage_core.lake.report import PublishReport
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget, lake_target
from storage_core.platform.overriding import override
from storage_core.testing import SimulatedCrash
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab

# All calls by which publishing changes a table or looks at it again.
CALLS: Final = ("create", "add_columns", "put", "commit", "reload")
DAY_MS: Final = 86_400_000
BEFORE: Final = "before a call to the table"
BEHIND: Final = "behind a call to the table"
Place = tuple[int, int]


class PublishLab(PartsLab):
    """A stream, its writer, and its table in a directory or a bucket."""

    def __init__(self, root: Path, target: LakeTarget | None = None, **options: Any) -> None:
        options.setdefault("block_records", 20)
        super().__init__(root / "log", **options)
        self.table = root / "table"
        self.target = target or lake_target(str(self.table))
        self.rng = np.random.default_rng(7)
        self._ever_visible: set[Place] = set()

    @override
    def append(self, rng: np.random.Generator, count: int) -> None:
        super().append(rng, count)
        self._ever_visible |= self.visible()

    def fill(self, count: int) -> Self:
        """Append, commit and seal rows."""
        self.append(self.rng, count)
        self.stream.seal()
        return self

    def publish(self) -> PublishReport:
        """Publish all that is sealed."""
        return publish_stream(self.root, NAME, self.target)

    def begin_hour(self) -> Self:
        """Let the next rows be of another window."""
        self._count += 3600
        return self

    def expire(self, rows: int) -> None:
        """Let all but the last so many rows expire, by their times."""
        self.stream.alter(retention=timedelta(days=1))
        first = FIRST_MS + (self._count - rows) * 1000
        self.stream.expire(now=first + DAY_MS)

    # --- what is there ---------------------------------------------------------------------

    def visible(self) -> set[Place]:
        """Return the shards and addresses of the rows that reads show."""
        with StreamReader.open(self.root, NAME) as reader:
            rows = reader.read(columns=["shard", "address"]).to_pylist()
        return {(row["shard"], row["address"]) for row in rows}

    def opened(self) -> DeltaTable:
        """Return the table as deltalake opens it."""
        return DeltaTable(self.target.uri, storage_options=dict(self.target.options))

    def places(self) -> list[Place]:
        """Return the shards and addresses of the table's rows, as deltalake reads them."""
        rows = self.opened().to_pyarrow_table(columns=["shard", "address"]).to_pylist()
        return sorted((row["shard"], row["address"]) for row in rows)

    def published(self) -> dict[int, int]:
        """Return up to where each shard is published."""
        table = LakeTable.open(self.target, self._stream_of_table())
        assert table is not None
        return {shard: table.published(shard) or 0 for shard in self.stream.committed()}

    def _stream_of_table(self) -> Any:
        with StreamReader.open(self.root, NAME) as reader:
            return stream_of(reader)

    def check(self) -> None:
        """Compare the table's rows with those of the stream below the published addresses.

        Rows that have expired since they were published may be there still: a part goes as a whole.
        """
        visible = self.visible()
        if not DeltaTable.is_deltatable(self.target.uri, dict(self.target.options)):
            return
        published = self.published()
        places = self.places()
        assert len(places) == len(set(places))
        expected = {place for place in visible if place[1] < published[place[0]]}
        assert expected <= set(places)
        assert set(places) <= self._ever_visible
        assert all(address < published[shard] for shard, address in places)


def versions(table: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the actions of each version of a table in a directory."""
    for path in sorted((table / "_delta_log").glob("*.json")):
        yield [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def streamed(table: Path) -> Counter[Place]:
    """Return how often a reader that follows the table's changes has got each row."""
    rows: Counter[Place] = Counter()
    for actions in versions(table):
        for action in actions:
            if "add" in action and action["add"]["dataChange"]:
                shard = int(action["add"]["partitionValues"]["shard"])
                file = pq.ParquetFile(table / action["add"]["path"])
                addresses = file.read(columns=["address"]).column("address").to_pylist()
                rows.update((shard, address) for address in addresses)
    return rows


def check_history(table: Path) -> None:
    """See that a table has one line of versions, and no published address ever went back."""
    names = [path.stem for path in sorted((table / "_delta_log").glob("*.json"))]
    assert names == [f"{number:020}" for number in range(len(names))]
    reached: dict[str, int] = {}
    for actions in versions(table):
        for action in actions:
            if "txn" in action:
                name, version = action["txn"]["appId"], action["txn"]["version"]
                assert version >= reached.get(name, 0)
                reached[name] = version


@contextmanager
def dying(
    call: int,
    *names: str,
    behind: bool = False,
    error: type[BaseException] = SimulatedCrash,
) -> Iterator[None]:
    """Let the n-th call to a table die, before the store hears of it or behind that."""
    left = call

    def counted(usual: Any) -> Any:
        @wraps(usual)
        def dies(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and not behind:
                raise error(BEFORE)
            answer = usual(*arguments, **named)
            if left == 0:
                raise error(BEHIND)
            return answer

        return dies

    with ExitStack() as patches:
        for name in names or CALLS:
            usual = LakeTable.__dict__[name]
            other = (
                classmethod(counted(usual.__func__))
                if isinstance(usual, classmethod)
                else counted(usual)
            )
            patches.enter_context(patch.object(LakeTable, name, other))
        yield
