"""`shardlog read`: records of ids or keys between primaries, or the newest of each."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import typer

from connectors.cli.arguments import (
    Columns,
    Ids,
    KeyHexes,
    KeyTexts,
    OutputOption,
    Overwrite,
    Raw,
    Root,
    SchemaFile,
    StreamName,
    To,
    column_names,
    keys_of,
    primary_bound,
    shown_columns,
)
from connectors.cli.asked_rows import AskedRows
from connectors.cli.output import OutputChoice, output_of
from connectors.cli.printing import print_json
from connectors.ingest.mapping import NULL_KEY_ID
from storage_core import InvalidRequestError, StreamReader

COLUMNS: Final = ("shard", "secondary", "primary", "version", "address", "late", "payload")

Start = Annotated[
    str | None,
    typer.Option(
        metavar="PRIMARY",
        help="Least primary: an integer, or a time with its zone (2026-01-31T12:00:00Z).",
    ),
]
End = Annotated[
    str | None, typer.Option(metavar="PRIMARY", help="Largest primary, inclusive; as --start.")
]
Limit = Annotated[int, typer.Option(metavar="N", help="Most records of each id; 0 for all.")]
Latest = Annotated[bool, typer.Option("--latest", help="Only the newest record of each id.")]
LatestBy = Annotated[
    Literal["primary", "key"] | None,
    typer.Option(
        help="Only the newest: of records of one id and primary, or of one id and key that with "
        "the largest primary. Tombstones that are the newest are hidden.",
    ),
]
Tombstones = Annotated[
    bool,
    typer.Option(
        "--tombstones", help="With --latest-by, also show tombstones that are the newest."
    ),
]
Count = Annotated[bool, typer.Option("--count", help="Print only how many records there are.")]

NullKey = Annotated[
    bool,
    typer.Option(
        "--null-key",
        help="Only records that came without a key, of a topic's stream; with a key dictionary it "
        "stands beside other keys.",
    ),
]


def read(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    ids: Ids = None,
    start: Start = None,
    end: End = None,
    limit: Limit = 0,
    latest: Latest = False,
    columns: Columns = None,
    form: OutputOption = None,
    count: Count = False,
    null_key: NullKey = False,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    latest_by: LatestBy = None,
    tombstones: Tombstones = False,
    to: To = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    schema: SchemaFile = None,
) -> None:
    """Read records by id or key, and primary, late ones in their place.

    They are ordered by id or key, then primary.

    Example: shardlog read ./data telemetry --id 17 --start 2026-01-31T12:00:00Z
    """
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
