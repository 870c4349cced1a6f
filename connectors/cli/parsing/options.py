"""Options that several commands share: root, stream, ids, times, broker.

The types stand for typer to read; `connectors/cli/input/arguments.py` turns texts into what the
commands work with.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

Format = Literal["table", "json", "csv"]
OutputForm = Literal["table", "jsonl", "json", "csv", "parquet", "arrow"]

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"

Root = Annotated[
    Path,
    typer.Argument(metavar="ROOT", help="Directory that holds the streams.", show_default=False),
]
RootOrServers = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="Directory that holds the streams; left out with --server.",
        show_default=False,
    ),
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
Limit = Annotated[
    int, typer.Option(metavar="N", min=0, help="Most records in all; 0 for no limit.")
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
    OutputForm | None,
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
        "it is written. - is standard output.",
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
