"""`shardlog latest`: the newest record of each id or key, by the log's heads."""

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
from connectors.cli.output import OutputChoice
from connectors.cli.read import (
    COLUMNS,
    Count,
    End,
    LatestBy,
    NullKey,
    Start,
    Tombstones,
    show_newest,
    show_rows,
)
from storage_core import InvalidRequestError, StreamReader


def latest(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    ids: Ids = None,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    null_key: NullKey = False,
    latest_by: LatestBy = None,
    tombstones: Tombstones = False,
    start: Start = None,
    end: End = None,
    columns: Columns = None,
    count: Count = False,
    form: OutputOption = None,
    to: To = None,
    overwrite: Overwrite = False,
    raw: Raw = False,
    schema: SchemaFile = None,
) -> None:
    """Show the newest record of each id or key: of equal primaries the last stored.

    A tombstone that is the newest is shown; with --latest-by it is hidden.

    Example: shardlog latest ./data telemetry --id 17 --output jsonl
    """
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if count and to:
        message = "--count prints a number; it goes without --to"
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        if null_key and reader.options.key_mode != "dictionary":
            message = "--null-key goes with a key dictionary only"
            raise InvalidRequestError(message)
        chosen = column_names(columns) or shown_columns(COLUMNS, reader.options)
        unit = reader.options.unit
        asked = AskedRows(
            ids,
            keys_of(keys, hex_keys, null_key=null_key),
            primary_bound("--start", start, unit),
            primary_bound("--end", end, unit),
            0,
            latest_by,
            tombstones,
        )
        if latest_by is None:
            show_newest(reader, asked, chosen, choice, count=count)
        else:
            show_rows(reader, asked, chosen, choice, count=count)
