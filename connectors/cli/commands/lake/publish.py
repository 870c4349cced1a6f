"""`shardlog lake publish`: the parts of a stream as a Delta table."""

from dataclasses import asdict
from pathlib import Path

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.output.formatting import counted, format_bytes
from connectors.cli.output.printing import print_json, print_line
from connectors.cli.output.progress_bar import progress_bar
from storage_core.lake import PublishReport, publish_stream


def publish(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    accept_hole: bool,
    take_over: bool,
    create_table: bool,
    lake_options: Path | None,
    as_json: bool,
) -> None:
    """Publish what is sealed."""
    target = stream_target(root, stream, lake_options)
    with progress_bar(None, "row") as progress:
        report = publish_stream(
            root,
            stream,
            target,
            on_rows=progress,
            accept_hole=accept_hole,
            take_over=take_over,
            create_table=create_table,
        )
    if as_json:
        print_json([{"uri": report.uri, **asdict(one)} for one in report.shards.values()])
        return
    print_line(_outcome(root, stream, report))
    removed = sum(shard.logs_removed for shard in report.shards.values())
    if removed:
        logs = counted(removed, "archived log")
        print_line(f"{logs} removed: the table has all that such a log had")
    staying = sum(shard.logs_kept for shard in report.shards.values())
    if staying:
        command = f"shardlog drop {root} {stream} --archived"
        logs = counted(staying, "archived log")
        print_line(f"{logs} stay: they alone have rows or dead letters; `{command}` lists them")
    gone = sum(shard.files_gone for shard in report.shards.values())
    if gone:
        files = counted(gone, "file")
        print_line(f"{files} of parts deleted on this machine: the lake has them")


def _outcome(root: Path, stream: str, report: PublishReport) -> str:
    if report.commits:
        files = counted(report.files_added, "file")
        removed = f", {report.files_removed:,} removed" if report.files_removed else ""
        return (
            f"{counted(report.rows, 'row')} published at {report.uri}: {files} of "
            f"{format_bytes(report.bytes)} added{removed}"
        )
    if not any(shard.sealed for shard in report.shards.values()):
        return (
            f"{stream!r} has nothing to publish: it has no parts; `shardlog seal {root} {stream}` "
            "writes some"
        )
    behind = [shard for shard in report.shards.values() if shard.sealed < shard.end]
    if behind:
        more = f" and {counted(len(behind) - 1, 'shard')} more" if len(behind) > 1 else ""
        return (
            f"{stream!r} has nothing to publish: shard {behind[0].shard}{more} has parts up to "
            f"{behind[0].sealed} here, and another log has published it up to {behind[0].end} at "
            f"{report.uri}; this one can follow it once it has more"
        )
    return f"{stream!r} has nothing to publish: the table at {report.uri} has all its parts"
