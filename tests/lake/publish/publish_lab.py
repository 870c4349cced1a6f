"""The lab: a stream with rows of every kind, its Delta table, and what another library sees of it.

lab.publish()             what is sealed
lab.check()               the table has each row once, as the stream shows them
with dying(3): ...        the process dies before the third call to the table
with dying(3, behind=True): ...   behind it: the store took the call, nobody heard of it
die_in(lab.publish, 3)    it dies there, or before an earlier call where there are not so many
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storage_core import StreamReader
from storage_core.avro import AvroSchema
from storage_core.lake.app_id import stream_of
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import PublishReport
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.platform.overriding import override
from storage_core.testing import SimulatedCrash
from tests.lake.support.stores import DirectoryStore, Store
from tests.log.parts.parts_lab import FIRST_MS, NAME, PartsLab

# All calls by which publishing changes a table or looks at it again.
CALLS: Final = ("open", "create", "add_columns", "put", "commit_all", "reload")
DAY_MS: Final = 86_400_000
BEFORE: Final = "before a call to the table"
BEHIND: Final = "behind a call to the table"
Place = tuple[int, int]


class PublishLab(PartsLab):
    """A stream, its writer, and its table in a directory or a bucket."""

    def __init__(self, root: Path, store: Store | None = None, **options: Any) -> None:
        options.setdefault("block_records", 20)
        super().__init__(root / "log", **options)
        store = store or DirectoryStore(root)
        self.target = store.target()
        self.changes = Changes(store, self.target)
        self.rng = np.random.default_rng(7)
        self._ever_visible: set[Place] = set()

    @override
    def append(self, rng: np.random.Generator, count: int) -> None:
        super().append(rng, count)
        self._ever_visible |= self.visible()

    @override
    def append_bodies(self, schema: AvroSchema, bodies: list[Any], registry_id: int) -> None:
        super().append_bodies(schema, bodies, registry_id)
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
        table = self.opened().to_pyarrow_table(columns=["shard", "address"])
        rows: list[dict[str, Any]] = table.to_pylist()
        return sorted((int(row["shard"]), int(row["address"])) for row in rows)

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
        self.changes.check()


class Changes:
    """What a reader sees that follows a table version by version, up to where it is by now."""

    def __init__(self, store: Store, target: LakeTarget) -> None:
        self._store, self._target = store, target
        self._versions = 0
        self.published: dict[str, int] = {}
        self.rows: Counter[Place] = Counter()
        """How often the reader has got each row."""

    def check(self) -> None:
        """Follow the table; see that no version is missing and no published address went back.

        And that no row came twice.
        """
        paths = self._store.paths(self._target)
        commits = [path for path in paths if re.fullmatch(r"_delta_log/\d{20}\.json", path)]
        assert commits == [f"_delta_log/{at:020}.json" for at in range(len(commits))]
        for path in commits[self._versions :]:
            for line in self._store.read(self._target, path).decode().splitlines():
                self._follow(json.loads(line))
        self._versions = len(commits)
        assert set(self.rows.values()) <= {1}

    def _follow(self, action: dict[str, Any]) -> None:
        if "txn" in action and not action["txn"]["appId"].endswith("/owner"):
            name, version = action["txn"]["appId"], action["txn"]["version"]
            assert version >= self.published.get(name, 0)
            self.published[name] = version
        if "add" in action and action["add"]["dataChange"]:
            shard = int(action["add"]["partitionValues"]["shard"])
            self.rows.update((shard, address) for address in self._addresses(action["add"]))

    def _addresses(self, added: dict[str, Any]) -> list[int]:
        data = pa.BufferReader(self._store.read(self._target, added["path"]))
        addresses = pq.ParquetFile(data).read(columns=["address"]).column("address")
        return [int(address) for address in addresses.to_numpy()]


@dataclass(slots=True)
class Calls:
    """How many calls there were, and whether one of them failed."""

    count: int = 0
    has_failed: bool = False


@contextmanager
def dying(
    call: int,
    *names: str,
    behind: bool = False,
    error: type[BaseException] = SimulatedCrash,
) -> Iterator[Calls]:
    """Let the n-th call to a table die, before the store hears of it or behind that."""
    calls = Calls()

    def counted(usual: Any) -> Any:
        @wraps(usual)
        def dies(*arguments: Any, **named: Any) -> Any:
            calls.count += 1
            is_last = calls.count == call
            calls.has_failed |= is_last
            if is_last and not behind:
                raise error(BEFORE)
            answer = usual(*arguments, **named)
            if is_last:
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
        yield calls


def die_in(do: Callable[[], object], call: int, *names: str, behind: bool = False) -> None:
    """Do something that dies at the n-th call to a table; at an earlier one, if it has fewer."""

    def attempt(number: int) -> Calls:
        with suppress(SimulatedCrash), dying(number, *names, behind=behind) as calls:
            do()
        return calls

    see_to_failure(attempt, call)


def see_to_failure(attempt: Callable[[int], Calls], call: int) -> None:
    """Let the n-th call of an attempt fail; at worst the first one of a third attempt does.

    A step that fails nowhere would be no step of a failure; but one that finds nothing to do makes
    no call.
    """
    calls = attempt(call)
    if not calls.has_failed:
        calls = attempt(1 + (call - 1) % max(1, calls.count))
    if not calls.has_failed:
        calls = attempt(1)
    assert calls.has_failed or calls.count == 0, "no call was made that could fail"
