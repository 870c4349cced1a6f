"""Arguments and options of `shardlog export` and `shardlog import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from connectors.cli.parsers.read import End, Start
from connectors.cli.parsing.options import AsJson, Ids, KeyHexes, KeyTexts, Root, StreamName
from connectors.cli.parsing.work import done_in

Directory = Annotated[
    Path,
    typer.Option(
        "--output",
        "--to",
        "-o",
        metavar="DIR",
        help="Directory for the files; it appears once all of them are written.",
        show_default=False,
    ),
]
Exported = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of an export.", show_default=False)
]
Form = Annotated[
    Literal["parquet", "avro", "jsonl"],
    typer.Option(
        "--format",
        help="Parquet, typed where a schema wrote the values; Avro container files, one a schema; "
        "or one JSON object a line.",
    ),
]
AvroCodec = Annotated[
    Literal["deflate", "zstandard"], typer.Option("--codec", help="How Avro files are compressed.")
]
FileRows = Annotated[
    int, typer.Option(metavar="N", min=1, help="After about so many rows the next files begin.")
]
NullKey = Annotated[
    bool, typer.Option("--null-key", help="Also records without a key, beside those of --key.")
]
WithoutLost = Annotated[
    bool,
    typer.Option(
        "--without-lost",
        help="Leave out lost ranges and list them; without it a lost range is an error.",
    ),
]
Append = Annotated[
    bool,
    typer.Option("--append", help="Append the rows as new ones behind those of the stream."),
]

FileMib = Annotated[
    int,
    typer.Option(
        "--file-mib-max",
        metavar="N",
        min=1,
        max=2047,
        help="Largest file in memory, unpacked; a larger one is refused before it is unpacked.",
    ),
]


@done_in("connectors.cli.commands.export_import")
def export(  # noqa: PLR0913 - one parameter an option
    root: Root,
    stream: StreamName,
    directory: Directory,
    form: Form = "parquet",
    start: Start = None,
    end: End = None,
    ids: Ids = None,
    keys: KeyTexts = None,
    hex_keys: KeyHexes = None,
    null_key: NullKey = False,
    codec: AvroCodec = "deflate",
    file_rows: FileRows = 131_072,
    without_lost: WithoutLost = False,
    as_json: AsJson = False,
) -> None:
    """Write one snapshot of a stream to files with a manifest.

    Writers go on beside it. If interrupted, call it again: it resumes where it stopped.

    Example: shardlog export ./data telemetry --output ./telemetry-export
    """


@done_in("connectors.cli.commands.export_import")
def import_(
    root: Root,
    directory: Exported,
    stream: StreamName,
    append: Append = False,
    file_mib_max: FileMib = 256,
) -> None:
    """Read the records of an export into a stream: as they were, or as new ones.

    A missing stream is created with the options of the exported one, and records keep their
    addresses. A stream that has other records is refused without --append. Repeated, it changes
    nothing; interrupted, it resumes.

    Example: shardlog import ./elsewhere ./telemetry-export telemetry
    """
