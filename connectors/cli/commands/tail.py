"""`shardlog tail`: the rows of shards by address, with the state each was given; an exact replay.

Following, it waits for what is committed and never asks for more: every row comes once, in the
order of its shard. Shards take turns; among them there is no order.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from connectors.cli.input.arguments import column_names, keys_of
from connectors.cli.input.requested_rows import RequestedRows
from connectors.cli.output.row_output import Output, OutputChoice, output_of
from connectors.cli.parsing.options import OutputForm
from connectors.output_formats.row_columns import chosen_columns
from storage_core import InvalidRequestError, ReadRequest, StreamReader

# How long one pass over all shards waits, so that none of them is shown much later.
_PASS_S: Final = 0.2


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
) -> None:
    """Show rows by address with their state: 0 normal, 1 late, 2 ahead, 3 expired."""
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if follow:
        choice.refuse_to_follow()
    if follow and archived is not None:
        message = "--follow and --archived: nothing is added to an archived log"
        raise InvalidRequestError(message)
    named = column_names(columns)
    # All is refused at once that has no meaning: what is followed may stay silent for long.
    of_ids = None if ids is None else tuple(ids)
    request = ReadRequest(0, ids=of_ids)
    key_list = keys_of(keys, hex_keys)
    with StreamReader.open(root, stream, archived=archived) as reader:
        chosen = chosen_columns(reader, named)
        request = replace(request, keys=None if key_list is None else tuple(key_list))
        requested_rows = RequestedRows(ids, key_list, None, None, tombstones=False)
        with output_of(reader, requested_rows, chosen, choice, is_followed=follow) as output:
            request = replace(request, columns=tuple(output.columns))
            progress = _Tail(reader, output, shard, request, limit)
            progress.begin(start)
            while follow and not progress.is_over:
                output.flush()
                progress.wait()


class _Tail:
    """How far each shard has been shown."""

    def __init__(
        self,
        reader: StreamReader,
        output: Output,
        shard: int | None,
        request: ReadRequest,
        limit: int,
    ) -> None:
        """Begin with no rows.

        Args:
            reader: The stream's.
            output: Where rows go.
            shard: The only one; all if None.
            request: Which rows of a shard.
            limit: How many rows in all; 0 for no limit.
        """
        self._reader = reader
        self._output = output
        self._shard = shard
        self._request = request
        self._positions: dict[int, int] = {}
        self._left: int | None = limit or None

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
        request = self._request
        for batch in self._reader.tail(
            shard, start, end, request.ids, request.columns, keys=request.keys
        ):
            some = batch if self._left is None else batch.slice(0, self._left)
            self._output.batch(some)
            if self._left is not None:
                self._left -= some.num_rows
                if not self._left:
                    return
        self._positions[shard] = end

    def _committed(self) -> dict[int, int]:
        ends = self._reader.refresh()
        if self._shard is None:
            return ends
        if self._shard not in ends:
            message = f"there is no shard {self._shard}; there are {sorted(ends)}"
            raise InvalidRequestError(message)
        return {self._shard: ends[self._shard]}


def _address(text: str) -> int:
    try:
        address = int(text)
    except ValueError:
        address = -1
    if address < 0:
        message = f"--from {text!r}: give an address from 0 on, or `end`"
        raise InvalidRequestError(message)
    return address
