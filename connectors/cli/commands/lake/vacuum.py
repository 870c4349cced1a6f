"""`shardlog lake vacuum`: deletes files that the table of a stream has no more."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.output.formatting import counted
from connectors.cli.output.printing import print_json, print_line, print_lines
from storage_core.lake import vacuum_stream


def vacuum(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    grace_hours: float,
    execute: bool,
    lake_options: Path | None,
    as_json: bool,
) -> None:
    """Delete files that the table has no more."""
    target = stream_target(root, stream, lake_options)
    grace = timedelta(hours=grace_hours)
    done = vacuum_stream(root, stream, target, grace=grace, dry_run=not execute)
    if as_json:
        print_json({"uri": target.uri, "deleted": execute, **asdict(done)})
        return
    if not execute:
        print_lines(done.files)
    if not done.files:
        print_line(f"no file at {target.uri} can be deleted")
    elif execute:
        print_line(f"{counted(len(done.files), 'file')} deleted at {target.uri}")
    else:
        print_line(f"{counted(len(done.files), 'file')} would be deleted; add --execute to do it")
    if done.within_history:
        files = counted(done.within_history, "file")
        print_line(f"for versions within lake_history: {files} not deleted")
