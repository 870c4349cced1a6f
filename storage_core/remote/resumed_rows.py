"""Rows by address that go on where an answer of a server was cut.

Rows of a replay and of arrivals come by address, so what is missing of a cut answer lies at and
above the address behind the last whole row: it is asked for anew, of the same server or of another
over the root. No row comes twice, and none is left out. As long as rows come in between an answer
may be cut any number of times; `CUTS_MAX` times in a row without one are an error.

A replay that goes on says where, so the log refuses it by itself if rows behind that address have
expired since. Arrivals show of the rest what has not expired by then. A tail without an end ends
where the log does when it is asked last.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import UnavailableError
from storage_core.remote.stream_client import StreamClient

CUTS_MAX: Final = 4
_Values = Mapping[str, Any]


@dataclass(slots=True)
class _Cuts:
    """The cuts of a read without a row since.

    Attributes:
        error: The last one; None if the last answer was whole.
        in_a_row: How many.
    """

    error: UnavailableError | None = None
    in_a_row: int = 0

    def until(self, rows: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
        """Yield rows until they end, or are cut."""
        self.error = None
        with closing(rows):
            while True:
                try:
                    batch = next(rows, None)
                except UnavailableError as error:
                    self.error = error
                    self.in_a_row += 1
                    return
                if batch is None:
                    return
                self.in_a_row = 0
                yield batch

    def refuse_too_many(self, client: StreamClient) -> None:
        """Raise the last cut, if no more of them are to be made up for."""
        if self.error is not None and (not client.resumes or self.in_a_row > CUTS_MAX):
            raise self.error


def resumed_rows(client: StreamClient, name: str, values: _Values) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a call that answers for one shard by address: `tail` or `scan_shard`.

    Args:
        client: What asks.
        name: The call.
        values: What it takes.

    Raises:
        UnavailableError: No server answers; or answers were cut too often.
        LostRangeError: Rows of the rest of a replay have expired since the cut.
    """
    cuts, begin = _Cuts(), dict[str, int]()
    columns = _with(values.get("columns"), "address")
    while True:
        rows = client.batches(name, {**values, **begin, "columns": columns})
        for batch in cuts.until(rows):
            begin["start_address"] = _last(batch, "address") + 1
            yield _only(batch, values.get("columns"))
        if cuts.error is None:
            return
        cuts.refuse_too_many(client)


def resumed_scan(
    client: StreamClient, values: _Values, shards: Callable[[], Iterable[int]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `scan`, shard by shard.

    Args:
        client: What asks.
        values: What the call takes.
        shards: Returns the numbers of all shards.

    Raises:
        UnavailableError: No server answers; or answers were cut too often.
    """
    cuts, begin = _Cuts(), dict[str, int]()
    columns = _with(values.get("columns"), "shard", "address")
    while not begin:
        rows = client.batches("scan", {**values, "columns": columns})
        for batch in cuts.until(rows):
            begin["shard"] = _last(batch, "shard")
            begin["start_address"] = _last(batch, "address") + 1
            yield _only(batch, values.get("columns"))
        if cuts.error is None:
            return
        cuts.refuse_too_many(client)
    for shard in sorted(shards()):
        if shard > begin["shard"]:
            begin = {"shard": shard}
        if shard == begin["shard"]:
            rest = {**values, **begin}
            yield from resumed_rows(client, "scan_shard", rest)


def _with(columns: Iterable[str] | None, *needed: str) -> tuple[str, ...] | None:
    """Return columns with those that say how far rows have come; None stays, for it has them."""
    return None if columns is None else tuple(dict.fromkeys((*columns, *needed)))


def _only(batch: pa.RecordBatch, columns: Iterable[str] | None) -> pa.RecordBatch:
    return batch if columns is None else batch.select(list(columns))


def _last(batch: pa.RecordBatch, column: str) -> int:
    number: int = batch.column(column)[batch.num_rows - 1].as_py()
    return number
