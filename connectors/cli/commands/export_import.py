"""`shardlog export` and `shardlog import`: rows of a stream as files, and back."""

from pathlib import Path
from typing import Final, Literal

from connectors.cli.input.arguments import keys_of, primary_bound
from connectors.cli.output.formatting import counted, format_ranges
from connectors.cli.output.printing import print_json, print_line
from connectors.cli.output.progress_bar import progress_bar
from connectors.output_formats.whole_file import STANDARD_OUTPUT
from storage_core import InvalidRequestError, StreamReader
from storage_core.export import ExportReport, export_stream, exported_rows, import_stream

_FILES: Final = (".parquet", ".avro", ".jsonl", ".csv")


def export(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    directory: Path,
    form: Literal["parquet", "avro", "jsonl"],
    start: str | None,
    end: str | None,
    ids: list[int] | None,
    keys: list[str] | None,
    hex_keys: list[str] | None,
    null_key: bool,
    codec: Literal["deflate", "zstandard"],
    file_rows: int,
    without_lost: bool,
    as_json: bool,
) -> None:
    """Write one snapshot of a stream to files with a manifest."""
    if directory == STANDARD_OUTPUT:
        message = (
            "--output -: an export is a directory; for rows on standard output use `shardlog read`"
        )
        raise InvalidRequestError(message)
    if directory.suffix in _FILES:
        message = (
            f"--output {directory}: an export is a directory; for one file of rows use "
            "`shardlog read --to`"
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
            file_format=form,
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
        print_line("resumed an interrupted export, with the snapshot of its start")
    for shard, lost in report.lost.items():
        print_line(f"shard {shard}: left out lost ranges {format_ranges(lost)}")
    print_line(
        f"{counted(report.rows, 'row')} in {counted(report.files, 'file')}, "
        f"{counted(report.bytes, 'byte')}: {directory}"
    )


def import_(*, root: Path, directory: Path, stream: str, append: bool, file_mib_max: int) -> None:
    """Read the records of an export into a stream: as they were, or as new ones."""
    file_bytes_max = file_mib_max * 2**20
    with progress_bar(exported_rows(directory, file_bytes_max), "row") as progress:
        report = import_stream(
            root,
            stream,
            directory,
            append=append,
            file_bytes_max=file_bytes_max,
            progress=progress,
        )
    created = f"created {stream!r}: " if report.is_new else ""
    before = f"; already present: {report.rows_before:,}" if report.rows_before else ""
    print_line(f"{created}{counted(report.rows, 'row')} imported{before}")


def _fields(report: ExportReport) -> dict[str, object]:
    return {
        "directory": str(report.directory),
        "rows": report.rows,
        "bytes": report.bytes,
        "files": report.files,
        "lost": {str(shard): [list(one) for one in lost] for shard, lost in report.lost.items()},
        "is_resumed": report.is_resumed,
    }
