"""`shardlog read`: records of ids or keys between primaries, or the newest of each."""

from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import typer

from connectors.cli.arguments import (
    Columns,
    Format,
    FormatOption,
    Ids,
    KeyHexes,
    KeyTexts,
    Root,
    StreamName,
    column_names,
    keys_of,
    primary_bound,
    shown_columns,
)
from connectors.cli.printing import RowPrinter, base64_columns, print_json
from connectors.ingest.mapping import NULL_KEY_ID
from storage_core import InvalidRequestError, StreamReader

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


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which records are asked for; of ids and keys one at most."""

    ids: list[int] | None
    keys: list[bytes | None] | None
    start: int | None
    end: int | None
    limit: int
    latest_by: Literal["primary", "key"] | None
    tombstones: bool

    def read(self, reader: StreamReader, columns: list[str]) -> pa.Table:
        """Return columns of them in order."""
        return reader.read(
            self.ids,
            self.start,
            self.end,
            self.limit,
            keys=self.keys,
            latest_by=self.latest_by,
            tombstones=self.tombstones,
            columns=columns,
        )


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
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    latest_by: LatestBy = None,
    tombstones: Tombstones = False,
) -> None:
    """Read records by id or key, and primary, late ones in their place.

    They are ordered by id or key, then primary.

    Example: shardlog read ./data telemetry --id 17 --start 2026-01-31T12:00:00Z --limit 10
    """
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
        chosen = column_names(columns) or shown_columns(_COLUMNS, reader.options)
        unit = reader.options.unit
        least, largest = primary_bound("--start", start, unit), primary_bound("--end", end, unit)
        named = keys_of(keys, hex_keys, null_key=null_key and has_keys)
        asked = _Asked(ids, named, least, largest, limit, latest_by, tombstones)
        if latest:
            _print_newest(reader, asked, chosen, form, count=count)
        elif null_key and not has_keys:
            _print(reader, _without_key(reader, asked, chosen), form, count=count)
        elif count:
            print_json(_count(reader, asked))
        else:
            _print(reader, asked.read(reader, chosen), form, count=False)


def _print(reader: StreamReader, rows: pa.Table, form: Format, *, count: bool) -> None:
    if count:
        print_json(rows.num_rows)
        return
    printer = RowPrinter(form, rows.column_names, base64_columns(reader.origin))
    printer.batch(rows)
    printer.end()


def _print_newest(
    reader: StreamReader, asked: _Asked, columns: list[str], form: Format, *, count: bool
) -> None:
    """Print the newest record of each id, or of each key by its bytes, none first."""
    there = shown_columns(_COLUMNS, reader.options)
    if unknown := sorted(set(columns) - set(there)):
        message = f"--latest has no columns {', '.join(unknown)}; it has {', '.join(there)}"
        raise InvalidRequestError(message)
    newest = reader.latest(asked.ids, keys=asked.keys)
    if count:
        print_json(len(newest))
        return
    fields = [asdict(record) for record in newest.values()]
    name = "key" if "key" in there else "secondary"
    fields.sort(key=lambda record: (record[name] is not None, record[name] or 0))
    printer = RowPrinter(form, columns, base64_columns(reader.origin))
    printer.rows([{name: record[name] for name in columns} for record in fields])
    printer.end()


def _without_key(reader: StreamReader, asked: _Asked, columns: list[str]) -> pa.Table:
    """Return the records without a key; a key whose number is their id is not among them."""
    if asked.keys is not None:
        # Refused as any read of such a stream by keys.
        reader.read(keys=asked.keys)
    if reader.origin is None:
        message = "--null-key: the stream is no topic's copy, its records have no keys"
        raise InvalidRequestError(message)
    every = columns if "key" in columns else [*columns, "key"]
    found = reader.read([NULL_KEY_ID], asked.start, asked.end, columns=every)
    kept = found.filter(pc.is_null(found["key"])).select(columns)
    return kept.slice(0, asked.limit) if asked.limit else kept


def _count(reader: StreamReader, asked: _Asked) -> int:
    if asked.limit or asked.latest_by:
        return asked.read(reader, ["address"]).num_rows
    found = reader.scan(asked.ids, asked.start, asked.end, keys=asked.keys, columns=["address"])
    return sum(batch.num_rows for batch in found)
