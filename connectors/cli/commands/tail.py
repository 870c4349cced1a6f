"""`shardlog tail`: the rows of shards by address, with the state each was given; an exact replay.

Following, it waits for what is committed and never asks for more: every row comes once, in the
order of its shard. Shards take turns; among them there is no order. A server that is away, or an
answer that is cut, is asked for again for a while, from the address on that was not shown yet.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from connectors.cli.input.arguments import column_names, keys_of
from connectors.cli.input.requested_rows import RequestedRows
from connectors.cli.output.row_output import Output, OutputChoice, output_of
from connectors.cli.parsing.options import OutputForm
from connectors.output_formats.row_columns import chosen_columns
from storage_core import (
    InvalidRequestError,
    ReadRequest,
    ServerOptions,
    StreamReader,
    SystemClock,
    UnavailableError,
)
from storage_core.remote.addresses import names_servers

# How long one pass over all shards waits, so that none of them is shown much later.
_PASS_S: Final = 0.2
# What tells how far an answer came.
_ADDRESS: Final = "address"
_PAUSE_S: Final = 0.2


def tail(  # noqa: PLR0913 - one parameter an option
    *,
    root: str,
    stream: str,
    shard: int | None,
    start: str | None,
    follow: bool,
    ids: list[int] | None,
    columns: str | None,
    form: OutputForm | None,
    keys: list[str] | None,
    hex_keys: list[str] | None,
    to: Path | None,
    overwrite: bool,
    raw: bool,
    schema: Path | None,
    archived: str | None,
    limit: int,
    retry_for: float | None,
) -> None:
    """Show rows by address with their state: 0 normal, 1 late, 2 ahead, 3 expired."""
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if follow:
        choice.refuse_to_follow()
    if follow and archived is not None:
        message = "--follow and --archived: nothing is added to an archived log"
        raise InvalidRequestError(message)
    server = _options_of(root, retry_for)
    named = column_names(columns)
    # All is refused at once that has no meaning: what is followed may stay silent for long.
    of_ids = None if ids is None else tuple(ids)
    request = ReadRequest(0, ids=of_ids)
    key_list = keys_of(keys, hex_keys)
    with StreamReader.open(root, stream, archived=archived, server=server) as reader:
        chosen = chosen_columns(reader, named)
        request = replace(request, keys=None if key_list is None else tuple(key_list))
        requested_rows = RequestedRows(ids, key_list, None, None, tombstones=False)
        with output_of(reader, requested_rows, chosen, choice, is_followed=follow) as output:
            request = replace(request, columns=tuple(output.columns))
            retry_s = server.retry_for.total_seconds() if server is not None else 0.0
            progress = _Tail(reader, output, shard, request, limit, retry_s)
            progress.begin(start)
            while follow and not progress.is_over:
                output.flush()
                progress.wait()


class _Tail:
    """How far each shard has been shown."""

    def __init__(  # noqa: PLR0913 - what is shown, and how far
        self,
        reader: StreamReader,
        output: Output,
        shard: int | None,
        request: ReadRequest,
        limit: int,
        retry_s: float,
    ) -> None:
        """Begin with no rows.

        Args:
            reader: The stream's.
            output: Where rows go.
            shard: The only one; all if None.
            request: Which rows of a shard.
            limit: How many rows in all; 0 for no limit.
            retry_s: For how long an answer that breaks off is asked for again.
        """
        self._reader = reader
        self._output = output
        self._shard = shard
        self._request = request
        self._positions: dict[int, int] = {}
        self._left: int | None = limit or None
        self._retry_s = retry_s
        self._clock = SystemClock()

    @property
    def is_over(self) -> bool:
        """Whether as many rows were shown as there may be."""
        return self._left == 0

    def begin(self, start: str | None) -> None:
        """Show what is committed from a start on."""
        only_new = start == "end"
        first = None if start is None or only_new else _address(start)
        for number, end in self._committed().items():
            if only_new:
                self._positions[number] = end
            elif first is not None and first >= end:
                self._positions[number] = first
            else:
                self._show(number, first, end)

    def wait(self) -> None:
        """Wait a little for each shard in turn, and show what it has got."""
        ends = self._committed()
        for number in ends:
            position = self._positions.get(number)
            if position is None:
                self._show(number, None, ends[number])
            elif self._reader.wait(number, position, _PASS_S / len(ends)):
                self._show(number, position, self._reader.committed()[number])

    def _show(self, shard: int, start: int | None, end: int) -> None:
        if self.is_over:
            return
        for batch in self._batches(shard, start, end):
            some = batch if self._left is None else batch.slice(0, self._left)
            self._output.batch(some)
            if self._left is not None:
                self._left -= some.num_rows
                if not self._left:
                    return
        self._positions[shard] = end

    def _batches(self, shard: int, start: int | None, end: int) -> Iterator[pa.RecordBatch]:
        """Yield rows; an answer of a server that breaks off goes on behind what came of it."""
        columns = list(self._output.columns)
        requested = columns if _ADDRESS in columns else [*columns, _ADDRESS]
        ids, keys = self._request.ids, self._request.keys
        until_s = self._clock.monotonic_s() + self._retry_s
        while True:
            try:
                for batch in self._reader.tail(shard, start, end, ids, requested, keys=keys):
                    if batch.num_rows:
                        start = batch[_ADDRESS][-1].as_py() + 1
                    yield batch.select(columns)
                    until_s = self._clock.monotonic_s() + self._retry_s
            except UnavailableError:
                if self._clock.monotonic_s() >= until_s:
                    raise
            else:
                return
            self._clock.sleep(_PAUSE_S)

    def _committed(self) -> dict[int, int]:
        ends = self._reader.refresh()
        if self._shard is None:
            return ends
        if self._shard not in ends:
            message = f"there is no shard {self._shard}; there are {sorted(ends)}"
            raise InvalidRequestError(message)
        return {self._shard: ends[self._shard]}


def _options_of(root: str, retry_for: float | None) -> ServerOptions | None:
    """Return how servers are asked; None where there is none."""
    if names_servers(root):
        own = ServerOptions()
        return own if retry_for is None else replace(own, retry_for=timedelta(seconds=retry_for))
    if retry_for is not None:
        message = "--retry-for goes with --server only"
        raise InvalidRequestError(message)
    return None


def _address(text: str) -> int:
    try:
        address = int(text)
    except ValueError:
        address = -1
    if address < 0:
        message = f"--from {text!r}: give an address from 0 on, or `end`"
        raise InvalidRequestError(message)
    return address
