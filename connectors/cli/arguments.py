"""What several verbs are told in the same words: root, stream, ids, times, broker.

The types stand for typer to read; the functions turn texts into what the verbs work with and
refuse with `InvalidRequestError` what they cannot read.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from storage_core import (
    INT64_MAX,
    INT64_MIN,
    UNITS_PER_SECOND,
    InvalidRequestError,
    StreamOptions,
    Unit,
)

Format = Literal["table", "json", "csv"]

Root = Annotated[
    Path,
    typer.Argument(metavar="ROOT", help="Directory that holds the streams.", show_default=False),
]
StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", show_default=False)
]
OneStream = Annotated[
    str | None,
    typer.Argument(metavar="STREAM", help="Only this stream; without it, all.", show_default=False),
]
Ids = Annotated[
    list[int] | None,
    typer.Option("--id", metavar="ID", help="Only this id; may be given several times."),
]
KeyTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="TEXT",
        help="Only this key, as UTF-8, of a stream with a key dictionary; may be given several "
        "times.",
    ),
]
KeyHexes = Annotated[
    list[str] | None,
    typer.Option(
        "--key-hex",
        metavar="HEX",
        help="Only this key, as hexadecimal digits; may be given several times.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Columns to show, in this order, with commas between."),
]
FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        help="An aligned table; one JSON object a line; or CSV. Bytes that are no text "
        "(UTF-8 without control characters) are shown as base64, and a field beside them says so.",
    ),
]
OutputOption = Annotated[
    Literal["table", "jsonl", "json", "csv", "parquet", "arrow"] | None,
    typer.Option(
        "--output",
        "--format",
        "-o",
        help="An aligned table, the default; one JSON object a line (jsonl); CSV; Parquet; or "
        "Arrow. Without it a file's name decides. In text, bytes that are no text (UTF-8 without "
        "control characters) are base64, and a field beside them says so.",
    ),
]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="FILE",
        help="Write to this file: .txt, .jsonl, .csv, .parquet or .arrow. It appears once all of "
        "it is written.",
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Put the file of --to in the place of one there.")
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Show payloads as the bytes they are, Avro or not.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Read Avro values by this schema; what it refers to is looked for beside it. Without "
        "it each is read by its own, and in Parquet and Arrow all by the latest.",
    ),
]
Execute = Annotated[
    bool,
    typer.Option("--execute", "--yes", help="Do it; without it, only say what would be done."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Bootstrap = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar="KAFKA_BOOTSTRAP", help="Kafka brokers to begin with."
    ),
]
KafkaSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        metavar="KEY=VALUE",
        help="A setting handed to the Kafka client as it is; may be given several times.",
    ),
]

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def keys_of(
    texts: Iterable[str] | None, hexes: Iterable[str] | None, *, null_key: bool = False
) -> list[bytes | None] | None:
    """Return the keys that `--key`, `--key-hex` and `--null-key` name; None if none is named."""
    # What the shell hands over may be bytes that are no text.
    keys: list[bytes | None] = [text.encode(errors="surrogateescape") for text in texts or ()]
    for digits in hexes or ():
        try:
            keys.append(bytes.fromhex(digits))
        except ValueError as error:
            message = f"--key-hex {digits!r}: give pairs of hexadecimal digits"
            raise InvalidRequestError(message) from error
    return keys + [None] * null_key or None


def shown_columns(columns: Iterable[str], options: StreamOptions) -> list[str]:
    """Return a verb's own columns: with a key dictionary, the key in the secondary's place."""
    has_keys = options.key_mode == "dictionary"
    return ["key" if has_keys and name == "secondary" else name for name in columns]


def column_names(text: str | None) -> list[str] | None:
    """Return the names in a text with commas between them."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if "" in names or len(set(names)) != len(names):
        message = f"--columns {text!r}: give each column once, with commas between"
        raise InvalidRequestError(message)
    return names


def kafka_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """Return the settings written as KEY=VALUE."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            # What was meant as its value may be a secret.
            shown = re.split(r"[^\w.-]", pair, maxsplit=1)[0]
            message = f"--kafka {shown}...: write KEY=VALUE"
            raise InvalidRequestError(message)
        settings[name.strip()] = value
    return settings


def primary_bound(option: Literal["--start", "--end"], text: str | None, unit: Unit) -> int | None:
    """Return the least primary at or after `--start`, or the largest at or before `--end`."""
    if text is None:
        return None
    try:
        primary = int(text)
    except ValueError:
        primary = _primary_of_time(option, text, unit, is_least=option == "--start")
    if not INT64_MIN <= primary <= INT64_MAX:
        message = (
            f"{option} {text!r}: outside what a primary can be, from {INT64_MIN} to {INT64_MAX}"
        )
        raise InvalidRequestError(message)
    return primary


def _primary_of_time(option: str, text: str, unit: Unit, *, is_least: bool) -> int:
    if unit not in UNITS_PER_SECOND:
        message = f"{option} {text!r}: this stream's primaries are numbers; give an integer"
        raise InvalidRequestError(message)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{option} {text!r}: give an integer, or a time such as 2026-01-31T12:00:00Z"
        raise InvalidRequestError(message) from error
    if moment.tzinfo is None:
        message = f"{option} {text!r}: a time needs its zone, such as 2026-01-31T12:00:00Z"
        raise InvalidRequestError(message)
    scaled = (moment - _EPOCH) // timedelta(microseconds=1) * UNITS_PER_SECOND[unit]
    return -(-scaled // 10**6) if is_least else scaled // 10**6
