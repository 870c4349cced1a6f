"""`shardlog export` and `shardlog import`: rows of a stream as files, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from connectors.cli.arguments import (
    AsJson,
    Ids,
    KeyHexes,
    KeyTexts,
    Root,
    StreamName,
    keys_of,
    primary_bound,
)
from connectors.cli.printing import print_json, print_line
from connectors.cli.progress_bar import progress_bar
from connectors.cli.read import End, Start
from connectors.cli.shown import counted, shown_ranges
from storage_core import InvalidRequestError, StreamReader

if TYPE_CHECKING:
    from storage_core.exchange.export import ExportReport

_FILES: Final = (".parquet", ".avro", ".jsonl", ".csv")

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
        help="Leave out what is lost, and tell it; without this a lost range is refused.",
    ),
]
Append = Annotated[
    bool,
    typer.Option("--append", help="Add the rows behind those that the stream has, as new ones."),
]


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
    """Write the records of a stream to files with a manifest, as they are at this moment.

    Writers go on beside it. Interrupted, it goes on where it stopped once it is called again.

    Example: shardlog export ./data telemetry --output ./telemetry-export
    """
    # Loading it takes a fifth of a second, which other verbs need not wait for.
    from storage_core.exchange.export import export_stream  # noqa: PLC0415

    if directory.suffix in _FILES:
        message = (
            f"--output {directory}: an export is a directory; one file of rows is what "
            "`shardlog read --to` writes"
        )
        raise InvalidRequestError(message)
    with StreamReader.open(root, stream) as reader:
        unit = reader.options.unit
        least, largest = primary_bound("--start", start, unit), primary_bound("--end", end, unit)
        named = keys_of(keys, hex_keys, null_key=null_key)
        is_whole = (least, largest, ids or None, named) == (None, None, None, None)
        total = reader.stats().records if is_whole else None
    with progress_bar(total, "row") as progress:
        report = export_stream(
            root,
            stream,
            directory,
            form=form,
            start=least,
            end=largest,
            ids=ids or None,
            keys=named,
            codec=codec,
            file_rows=file_rows,
            without_lost=without_lost,
            progress=progress,
        )
    if as_json:
        print_json(_fields(report))
        return
    if report.is_resumed:
        print_line("went on with an export that was interrupted, of the moment at which it began")
    for shard, lost in report.lost.items():
        print_line(f"left out of shard {shard}, as it is lost: {shown_ranges(lost)}")
    print_line(
        f"{counted(report.rows, 'row')} in {counted(report.files, 'file')}, "
        f"{counted(report.bytes, 'byte')}: {directory}"
    )


def import_(root: Root, directory: Exported, stream: StreamName, append: Append = False) -> None:
    """Take the records of an export into a stream: as they were, or as new ones.

    A stream that is not there is made as the exported one was; its records have the same addresses.
    One that has other records is refused without --append. Repeated, it changes nothing;
    interrupted, it goes on.

    Example: shardlog import ./elsewhere ./telemetry-export telemetry
    """
    from storage_core.exchange.importing import (  # noqa: PLC0415 - as above
        import_stream,
        rows_exported,
    )

    with progress_bar(rows_exported(directory), "row") as progress:
        report = import_stream(root, stream, directory, append=append, progress=progress)
    made = f"made {stream!r}: " if report.is_new else ""
    there = f"; there already: {report.rows_before:,}" if report.rows_before else ""
    print_line(f"{made}{counted(report.rows, 'row')} taken{there}")


def _fields(report: "ExportReport") -> dict[str, object]:
    return {
        "directory": str(report.directory),
        "rows": report.rows,
        "bytes": report.bytes,
        "files": report.files,
        "lost": {str(shard): [list(one) for one in lost] for shard, lost in report.lost.items()},
        "is_resumed": report.is_resumed,
    }
