"""`shardlog read`: records of ids or keys between primaries, or the newest of each."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from connectors.cli.input.arguments import column_names, keys_of, primary_bound
from connectors.cli.input.requested_rows import RequestedRows, first_rows
from connectors.cli.output.printing import print_json
from connectors.cli.output.row_output import OutputChoice, output_of
from connectors.cli.parsing.options import OutputForm
from connectors.kafka.terms import NULL_KEY_ID
from connectors.output_formats.row_columns import chosen_columns
from storage_core import InvalidRequestError, StreamReader


def read(  # noqa: PLR0913 - one parameter an option
    *,
    root: str,
    stream: str,
    ids: list[int] | None,
    start: str | None,
    end: str | None,
    limit: int,
    limit_per_id: int,
    latest: bool,
    columns: str | None,
    form: OutputForm | None,
    count: bool,
    null_key: bool,
    keys: list[str] | None,
    hex_keys: list[str] | None,
    latest_by: Literal["primary", "key"] | None,
    tombstones: bool,
    to: Path | None,
    overwrite: bool,
    raw: bool,
    schema: Path | None,
) -> None:
    """Read records by id or key, and primary, late ones in their place."""
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if count and to:
        message = "--count prints a number; it goes without --to"
        raise InvalidRequestError(message)
    if latest and (start is not None or end is not None or limit or limit_per_id or latest_by):
        message = (
            "--latest goes with --id and --key only, not with --start, --end, --limit, "
            "--limit-per-id, --latest-by"
        )
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        has_keys = reader.options.key_mode == "dictionary"
        if null_key and not has_keys and (latest or ids or latest_by):
            message = (
                "--null-key goes without --id, --latest and --latest-by: it names an id of its own"
            )
            raise InvalidRequestError(message)
        chosen = chosen_columns(reader, column_names(columns))
        unit = reader.options.unit
        least, largest = primary_bound("--start", start, unit), primary_bound("--end", end, unit)
        named = keys_of(keys, hex_keys, null_key=null_key and has_keys)
        request = RequestedRows(
            ids, named, least, largest, tombstones, latest_by, limit, limit_per_id
        )
        if latest:
            show_newest(reader, request, chosen, choice, count=count)
        elif null_key and not has_keys:
            _show_without_key(reader, request, chosen, choice, count=count)
        else:
            show_rows(reader, request, chosen, choice, count=count)


def show_newest(
    reader: StreamReader,
    request: RequestedRows,
    columns: list[str],
    choice: OutputChoice,
    *,
    count: bool,
) -> None:
    """Print the newest record of each id, or of each key by its bytes, none first."""
    if count:
        print_json(request.newest(reader, ["address"]).num_rows)
        return
    with output_of(reader, request, columns, choice) as output:
        output.batch(request.newest(reader, output.columns))


def show_rows(
    reader: StreamReader,
    request: RequestedRows,
    columns: list[str],
    choice: OutputChoice,
    *,
    count: bool,
) -> None:
    """Print records in order."""
    if count:
        print_json(_count(reader, request))
        return
    with output_of(reader, request, columns, choice, total=_total(reader, request)) as output:
        for batch in request.batches(reader, output.columns, output.folder):
            output.batch(batch)


def _total(reader: StreamReader, request: RequestedRows) -> int:
    """Return how many rows there will be, where it is known."""
    is_all = request == RequestedRows(None, None, None, None, request.tombstones)
    return sum(reader.stats(shard).records for shard in reader.committed()) if is_all else 0


def _show_without_key(
    reader: StreamReader,
    request: RequestedRows,
    columns: list[str],
    choice: OutputChoice,
    *,
    count: bool,
) -> None:
    """Print the records without a key; a key whose number is their id is not among them."""
    if request.keys is not None:
        # Refused, as every read of such a stream by keys.
        request.read(reader, ["address"])
    if reader.origin is None:
        message = "--null-key: the stream does not come from a topic, its records have no keys"
        raise InvalidRequestError(message)
    # They all have one id.
    limit = min(filter(None, (request.limit, request.limit_per_id)), default=0)
    of_no_key = replace(request, ids=[NULL_KEY_ID], limit=0, limit_per_id=0)
    if count:
        batches = _of_no_key(of_no_key.batches(reader, ["address", "key"]), limit)
        print_json(sum(batch.num_rows for batch in batches))
        return
    with output_of(reader, of_no_key, columns, choice) as output:
        every = of_no_key.batches(reader, [*dict.fromkeys((*output.columns, "key"))])
        for batch in _of_no_key(every, limit):
            output.batch(batch.select(output.columns))


def _of_no_key(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    without_key = (batch.filter(pc.is_null(batch.column("key"))) for batch in batches)
    return first_rows(without_key, limit) if limit else without_key


def _count(reader: StreamReader, request: RequestedRows) -> int:
    batches: Iterator[pa.RecordBatch]
    if request.limit_per_id or request.latest_by:
        batches = iter(request.read(reader, ["address"]).to_batches())
    else:
        batches = reader.scan(
            request.ids, request.start, request.end, keys=request.keys, columns=["address"]
        )
    batches = first_rows(batches, request.limit) if request.limit else batches
    return sum(batch.num_rows for batch in batches)
