"""`shardlog tail`: the rows of shards by address, with the state each was given; an exact replay.

Following, it waits for what is committed and never asks for more: every row comes once, in the
order of its shard. Shards take turns; among them there is no order.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from connectors.cli.arguments import column_names, keys_of, shown_columns
from connectors.cli.asked_rows import AskedRows
from connectors.cli.output import Output, OutputChoice, output_of
from connectors.cli.verbs.options import OutputForm
from storage_core import InvalidRequestError, ReadRequest, StreamReader

_COLUMNS: Final = ("shard", "address", "primary", "secondary", "version", "state", "payload")
# How long one turn of all shards waits, so that none of them is shown much later.
_TURN_S: Final = 0.2


def tail(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
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
) -> None:
    """Show rows by address with their state: normal, late, ahead or expired."""
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if follow:
        choice.refuse_to_follow()
    named = column_names(columns)
    # All is refused at once that has no meaning: what is followed may stay silent for long.
    of_ids = None if ids is None else tuple(ids)
    request = ReadRequest(0, ids=of_ids, columns=None if named is None else tuple(named))
    asked = keys_of(keys, hex_keys)
    with StreamReader.open(root, stream) as reader:
        chosen = named or shown_columns(_COLUMNS, reader.options)
        request = replace(
            request, columns=tuple(chosen), keys=None if asked is None else tuple(asked)
        )
        asked_rows = AskedRows(ids, asked, None, None, 0, None, tombstones=False)
        with output_of(reader, asked_rows, chosen, choice, is_followed=follow) as output:
            request = replace(request, columns=tuple(output.columns))
            turn = _Turn(reader, output, shard, request)
            turn.begin(start)
            while follow:
                output.flush()
                turn.wait()


class _Turn:
    """How far each shard has been shown."""

    def __init__(
        self,
        reader: StreamReader,
        output: Output,
        shard: int | None,
        request: ReadRequest,
    ) -> None:
        self._reader = reader
        self._output = output
        self._shard = shard
        self._asked = request
        self._shown: dict[int, int] = {}

    def begin(self, start: str | None) -> None:
        """Show what is committed from a start on."""
        only_new = start == "end"
        first = None if start is None or only_new else _address(start)
        for number, end in self._committed().items():
            if only_new:
                self._shown[number] = end
            elif first is not None and first >= end:
                self._shown[number] = first
            else:
                self._show(number, first, end)

    def wait(self) -> None:
        """Wait a little for each shard in turn, and show what it has got."""
        ends = self._committed()
        for number in ends:
            shown = self._shown.get(number)
            if shown is None:
                self._show(number, None, ends[number])
            elif self._reader.wait(number, shown, _TURN_S / len(ends)):
                self._show(number, shown, self._reader.committed()[number])

    def _show(self, shard: int, start: int | None, end: int) -> None:
        asked = self._asked
        for batch in self._reader.tail(
            shard, start, end, asked.ids, asked.columns, keys=asked.keys
        ):
            self._output.batch(batch)
        self._shown[shard] = end

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
