"""`shardlog read`: records of ids between primaries, or the newest of each id."""

from dataclasses import asdict
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.compute as pc
import typer

from connectors.cli.arguments import (
    Columns,
    FormatOption,
    Ids,
    Root,
    StreamName,
    column_names,
    primary_bound,
)
from connectors.cli.printing import RowPrinter, base64_columns, print_json
from connectors.ingest.mapping import NULL_KEY_ID
from storage_core import InvalidRequestError, Record, StreamReader

_COLUMNS: Final = ("shard", "secondary", "primary", "version", "address", "late", "payload")

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
Count = Annotated[bool, typer.Option("--count", help="Print only how many records there are.")]

NullKey = Annotated[
    bool,
    typer.Option("--null-key", help="Only records that came without a key; a topic's stream only."),
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
    form: FormatOption = "table",
    count: Count = False,
    null_key: NullKey = False,
) -> None:
    """Read records by id and primary, late ones in their place.

    They are ordered by id, then primary.

    Example: shardlog read ./data telemetry --id 17 --start 2026-01-31T12:00:00Z --limit 10
    """
    chosen = column_names(columns) or list(_COLUMNS)
    if latest and (start is not None or end is not None or limit):
        message = "--latest goes with --id only, not with --start, --end or --limit"
        raise InvalidRequestError(message)
    if null_key and (latest or ids):
        message = "--null-key goes without --id and --latest: it names an id of its own"
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        printer = RowPrinter(form, chosen, base64_columns(reader.origin))
        if latest:
            rows = _newest(reader, ids, chosen)
            if count:
                print_json(len(rows))
                return
            printer.rows(rows)
        else:
            unit = reader.options.unit
            least = primary_bound("--start", start, unit)
            largest = primary_bound("--end", end, unit)
            if null_key:
                found = _without_key(reader, least, largest, limit, chosen)
                if count:
                    print_json(found.num_rows)
                    return
                printer.batch(found)
            elif count:
                print_json(_count(reader, ids, least, largest, limit))
                return
            else:
                printer.batch(reader.read(ids, least, largest, limit, columns=chosen))
        printer.end()


def _without_key(
    reader: StreamReader, start: int | None, end: int | None, limit: int, columns: list[str]
) -> pa.Table:
    """Return the records without a key; a key whose number is their id is not among them."""
    if reader.origin is None:
        message = "--null-key: the stream is no topic's copy, its records have no keys"
        raise InvalidRequestError(message)
    asked = columns if "key" in columns else [*columns, "key"]
    found = reader.read([NULL_KEY_ID], start, end, columns=asked)
    kept = found.filter(pc.is_null(found["key"])).select(columns)
    return kept.slice(0, limit) if limit else kept


def _newest(
    reader: StreamReader, ids: list[int] | None, columns: list[str]
) -> list[dict[str, object]]:
    unknown = sorted(set(columns) - set(_COLUMNS))
    if unknown:
        message = f"--latest has no columns {', '.join(unknown)}; it has {', '.join(_COLUMNS)}"
        raise InvalidRequestError(message)
    newest: dict[int, Record] = reader.latest(ids)
    fields = [asdict(newest[secondary]) for secondary in sorted(newest)]
    return [{name: record[name] for name in columns} for record in fields]


def _count(
    reader: StreamReader,
    ids: list[int] | None,
    start: int | None,
    end: int | None,
    limit: int,
) -> int:
    if limit:
        return reader.read(ids, start, end, limit, columns=["address"]).num_rows
    return sum(batch.num_rows for batch in reader.scan(ids, start, end, columns=["address"]))
