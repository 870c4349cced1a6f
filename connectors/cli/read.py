"""`shardlog read`: records of ids or keys between primaries, or the newest of each."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from connectors.cli.arguments import column_names, keys_of, primary_bound, shown_columns
from connectors.cli.asked_rows import AskedRows
from connectors.cli.output import OutputChoice, output_of
from connectors.cli.printing import print_json
from connectors.cli.verbs.options import OutputForm
from connectors.ingest.mapping import NULL_KEY_ID
from storage_core import InvalidRequestError, StreamReader

COLUMNS: Final = ("shard", "secondary", "primary", "version", "address", "late", "payload")


def read(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    ids: list[int] | None,
    start: str | None,
    end: str | None,
    limit: int,
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
    if latest and (start is not None or end is not None or limit or latest_by):
        message = (
            "--latest goes with --id and --key only, not with --start, --end, --limit, --latest-by"
        )
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        has_keys = reader.options.key_mode == "dictionary"
        if null_key and not has_keys and (latest or ids or latest_by):
            message = (
                "--null-key goes without --id, --latest and --latest-by: it names an id of its own"
            )
            raise InvalidRequestError(message)
        chosen = column_names(columns) or shown_columns(COLUMNS, reader.options)
        unit = reader.options.unit
        least, largest = primary_bound("--start", start, unit), primary_bound("--end", end, unit)
        named = keys_of(keys, hex_keys, null_key=null_key and has_keys)
        asked = AskedRows(ids, named, least, largest, limit, latest_by, tombstones)
        if latest:
            show_newest(reader, asked, chosen, choice, count=count)
        elif null_key and not has_keys:
            _show_without_key(reader, asked, chosen, choice, count=count)
        else:
            show_rows(reader, asked, chosen, choice, count=count)


def show_newest(
    reader: StreamReader, asked: AskedRows, columns: list[str], choice: OutputChoice, *, count: bool
) -> None:
    """Print the newest record of each id, or of each key by its bytes, none first."""
    if count:
        print_json(asked.newest(reader, ["address"]).num_rows)
        return
    with output_of(reader, asked, columns, choice) as output:
        output.batch(asked.newest(reader, output.columns))


def show_rows(
    reader: StreamReader, asked: AskedRows, columns: list[str], choice: OutputChoice, *, count: bool
) -> None:
    """Print records in order."""
    if count:
        print_json(_count(reader, asked))
        return
    with output_of(reader, asked, columns, choice, total=_total(reader, asked)) as output:
        for batch in asked.batches(reader, output.columns, output.folder):
            output.batch(batch)


def _total(reader: StreamReader, asked: AskedRows) -> int:
    """Return how many rows there will be, where it is known."""
    is_all = asked == AskedRows(None, None, None, None, 0, None, tombstones=asked.tombstones)
    return sum(reader.stats(shard).records for shard in reader.committed()) if is_all else 0


def _show_without_key(
    reader: StreamReader, asked: AskedRows, columns: list[str], choice: OutputChoice, *, count: bool
) -> None:
    """Print the records without a key; a key whose number is their id is not among them."""
    if asked.keys is not None:
        # Refused as any read of such a stream by keys.
        asked.read(reader, columns)
    if reader.origin is None:
        message = "--null-key: the stream is no topic's copy, its records have no keys"
        raise InvalidRequestError(message)
    of_no_key = replace(asked, ids=[NULL_KEY_ID], limit=0)
    if count:
        found = _of_no_key(of_no_key.batches(reader, ["address", "key"]), asked.limit)
        print_json(sum(batch.num_rows for batch in found))
        return
    with output_of(reader, of_no_key, columns, choice) as output:
        every = of_no_key.batches(reader, [*dict.fromkeys((*output.columns, "key"))])
        for batch in _of_no_key(every, asked.limit):
            output.batch(batch.select(output.columns))


def _of_no_key(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        kept = batch.filter(pc.is_null(batch.column("key")))
        kept = kept.slice(0, left) if limit else kept
        left -= kept.num_rows
        yield kept
        if limit and left <= 0:
            return


def _count(reader: StreamReader, asked: AskedRows) -> int:
    if asked.limit or asked.latest_by:
        return asked.read(reader, ["address"]).num_rows
    found = reader.scan(asked.ids, asked.start, asked.end, keys=asked.keys, columns=["address"])
    return sum(batch.num_rows for batch in found)
