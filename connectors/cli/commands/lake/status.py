"""`shardlog lake status`: how far each shard of a stream is published."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE, exit_code_for
from connectors.cli.output.formatting import counted, format_age, format_bytes
from connectors.cli.output.printing import print_json, print_line, print_table
from storage_core.lake import LakeStatus, ShardLakeStatus, UnreadShard, lake_status

_COLUMNS: Final = ("shard", "published", "sealed", "committed", "unpublished", "oldest", "owner")


def status(*, root: Path, stream: str, lake_options: Path | None, as_json: bool) -> None:
    """Show how far each shard is published."""
    lake = lake_status(root, stream, stream_target(root, stream, lake_options))
    if as_json:
        print_json(_fields(lake))
    else:
        _print(lake)
    if lake.unread:
        codes = {exit_code_for(one.error) for one in lake.unread.values()}
        raise typer.Exit(EXIT_UNAVAILABLE if codes == {EXIT_UNAVAILABLE} else EXIT_DAMAGE)


def _print(lake: LakeStatus) -> None:
    print_line(_table_line(lake))
    rows = {shard: _row(shard, of) for shard, of in lake.shards.items()}
    rows |= {shard: _unread_row(shard, of) for shard, of in lake.unread.items()}
    print_table(_COLUMNS, [row for _, row in sorted(rows.items())])
    for shard, unread in lake.unread.items():
        way_out = unread.way_out
        hint = "" if way_out is None else f"; `{way_out}` gives the shard a new log from the table"
        print_line(f"  shard {shard} cannot be read: {unread.error}{hint}")


def _table_line(lake: LakeStatus) -> str:
    if lake.version is None:
        return f"table {lake.uri}: there is none yet"
    files, size = counted(lake.files, "file"), format_bytes(lake.bytes)
    return f"table {lake.uri}: version {lake.version}, {files}, {size}"


def _row(shard: int, shard_status: ShardLakeStatus) -> list[str | int | None]:
    age = format_age(shard_status.unpublished_age_ms / 1000) if shard_status.unpublished else None
    return [
        shard,
        shard_status.published,
        shard_status.sealed,
        shard_status.committed,
        shard_status.unpublished,
        age,
        shard_status.owner,
    ]


def _unread_row(shard: int, unread: UnreadShard) -> list[str | int | None]:
    return [shard, unread.published, *[None] * (len(_COLUMNS) - 2)]


def _fields(lake: LakeStatus) -> dict[str, object]:
    return {
        "uri": lake.uri,
        "version": lake.version,
        "files": lake.files,
        "bytes": lake.bytes,
        "shards": [{"shard": shard, **asdict(each)} for shard, each in lake.shards.items()],
        "unread": [
            {
                "shard": shard,
                "published": unread.published,
                "message": str(unread.error),
                "exit_code": exit_code_for(unread.error),
                "way_out": unread.way_out,
            }
            for shard, unread in lake.unread.items()
        ],
    }
