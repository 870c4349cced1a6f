"""`shardlog lake status`: how far each shard of a stream is published."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from connectors.cli.commands.lake.target import stream_target
from connectors.cli.output.formatting import counted, format_age, format_bytes
from connectors.cli.output.printing import print_json, print_line, print_table
from storage_core.lake import LakeStatus, ShardLakeStatus, lake_status

_COLUMNS: Final = ("shard", "published", "sealed", "committed", "unpublished", "oldest", "owner")


def status(*, root: Path, stream: str, lake_options: Path | None, as_json: bool) -> None:
    """Show how far each shard is published."""
    lake = lake_status(root, stream, stream_target(root, stream, lake_options))
    if as_json:
        print_json(_fields(lake))
        return
    print_line(_table_line(lake))
    print_table(_COLUMNS, [_row(shard, status_of) for shard, status_of in lake.shards.items()])


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


def _fields(lake: LakeStatus) -> dict[str, object]:
    return {
        "uri": lake.uri,
        "version": lake.version,
        "files": lake.files,
        "bytes": lake.bytes,
        "shards": [{"shard": shard, **asdict(each)} for shard, each in lake.shards.items()],
    }
