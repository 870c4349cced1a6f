"""The vocabulary of writers over a server: rows staged, transactions made, and what is left.

with writing(bench) as area:                 a client that may write
    parts = staged(area, NUMBERED, range(9)) rows, staged
    land(area, NUMBERED, parts)              and made the transaction
stored(bench)                                the primaries that are there
left(bench)                                  what lies in the staging directory
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import Contents, ServerOptions, StagedRows, StreamReader, TransactionId
from storage_core.protocol import PROTOCOL, PROTOCOL_NUMBER
from storage_core.remote.staging_client import StagingClient
from storage_core.transactions.staged_batch import StagedBatch, Waiting
from tests.log.served import AT_ONCE, served
from tests.log.workbench import Workbench, batch_of
from tests.waiting import WAIT_MAX_S

NUMBERED = TransactionId("app", 1)
PATIENT = ServerOptions(retry_for=timedelta(seconds=WAIT_MAX_S))
OF_OURS = {PROTOCOL: str(PROTOCOL_NUMBER)}


def rows(primaries: range | list[int]) -> pa.RecordBatch:
    """Return rows whose secondaries alternate between the shards."""
    numbers = list(primaries)
    return batch_of(numbers, secondary=[number % 2 for number in numbers])


def staged(
    area: StagingClient, transaction: TransactionId, primaries: range | list[int]
) -> dict[int, tuple[StagedRows, ...]]:
    writer = area.writer(transaction)
    writer.write(rows(primaries))
    return writer.finish()


def land(area: StagingClient, transaction: TransactionId, parts: Any, *, wait_s: float = 0) -> None:
    count = sum(part.rows for of_shard in parts.values() for part in of_shard)
    area.land(StagedBatch(transaction, parts, Contents(count, 1, 2)), Waiting(wait_s, "a test"))


def stored(bench: Workbench) -> list[int]:
    with StreamReader.open(bench.root, bench.name) as reader:
        primaries: list[Any] = reader.read().column("primary").to_pylist()
        return sorted(primaries)


def left(bench: Workbench) -> list[Path]:
    return list(bench.staging.rglob("*"))


@contextmanager
def writing(
    bench: Workbench, options: ServerOptions = AT_ONCE, **settings: Any
) -> Iterator[StagingClient]:
    """A client of a server that everybody on this machine may write to."""
    with (
        served(bench.root, is_writable=True, **settings) as address,
        StagingClient.open(address, bench.name, options=options) as area,
    ):
        yield area
