"""`shardlog latest`: the newest record of each id or key, by the log's heads."""

from pathlib import Path
from typing import Literal

from connectors.cli.commands.read import show_newest, show_rows
from connectors.cli.input.arguments import column_names, keys_of, primary_bound
from connectors.cli.input.requested_rows import RequestedRows
from connectors.cli.output.row_output import OutputChoice
from connectors.cli.parsing.options import OutputForm
from connectors.output_formats.row_columns import chosen_columns
from storage_core import InvalidRequestError, StreamReader


def latest(  # noqa: PLR0913 - one parameter an option
    *,
    root: str,
    stream: str,
    ids: list[int] | None,
    keys: list[str] | None,
    hex_keys: list[str] | None,
    null_key: bool,
    latest_by: Literal["primary", "key"] | None,
    tombstones: bool,
    start: str | None,
    end: str | None,
    columns: str | None,
    count: bool,
    form: OutputForm | None,
    to: Path | None,
    overwrite: bool,
    raw: bool,
    schema: Path | None,
) -> None:
    """Show the newest record of each id or key: of equal primaries the last stored."""
    choice = OutputChoice.of(form, to, overwrite=overwrite, raw=raw, schema=schema)
    if count and to:
        message = "--count prints a number; it goes without --to"
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        if null_key and reader.options.key_mode != "dictionary":
            message = "--null-key goes with a key dictionary only"
            raise InvalidRequestError(message)
        chosen = chosen_columns(reader, column_names(columns))
        unit = reader.options.unit
        request = RequestedRows(
            ids,
            keys_of(keys, hex_keys, null_key=null_key),
            primary_bound("--start", start, unit),
            primary_bound("--end", end, unit),
            tombstones,
            latest_by,
        )
        if latest_by is None:
            show_newest(reader, request, chosen, choice, count=count)
        else:
            show_rows(reader, request, chosen, choice, count=count)
