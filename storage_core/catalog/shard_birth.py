"""Adding shards to a stream whose shards are the partitions of an origin.

Under flock of the stream's directory, for each shard that is not listed yet:

1. What a crash has left of it is cleared away; it was never listed, so it has no store.
2. Its directory and its marker, which says that the first address is committed, become durable.

Then options.json lists all of them, each with its lineage and first address. From there on
their birth survives any crash: opening a shard that has no store yet makes one that begins
where options.json says. Any number of processes may add the same shards at once; the first
start that is listed holds.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from storage_core.catalog.options import SHARDS_MAX
from storage_core.catalog.stream_file import (
    StreamFiles,
    locked,
    make_shard,
    read_stream,
    remove_unborn_shard,
)
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX
from storage_core.ground.clock import Clock
from storage_core.ground.durable_file import taking_errors


def add_shards(root: Path, name: str, starts: Mapping[int, int], clock: Clock) -> StreamFiles:
    """Make the shards that are not there yet; durable on return.

    Raises:
        InvalidRequestError: There is no such stream, it has no origin, or a number does not fit.
        CorruptionError: A shard with data lies there, but is not listed.
    """
    _check_starts(starts)
    files = read_stream(root, name, is_whole=False)
    if files.meta.origin is None:
        message = "the stream routes by secondary; its shards are made with it"
        raise InvalidRequestError(message, stream=name)
    with taking_errors(files.directory, "adding shards"), locked(files.directory, clock):
        return _add_missing(files.reread(), starts)


def _add_missing(files: StreamFiles, starts: Mapping[int, int]) -> StreamFiles:
    lineages, births = dict(files.settings.lineages), dict(files.settings.births)
    missing = sorted(set(starts) - set(lineages))
    if not missing:
        return files
    for shard in missing:
        directory = files.shard_directory(shard)
        if directory.exists():
            remove_unborn_shard(directory, files.meta.name, "not listed in options.json")
        lineages[shard] = make_shard(directory, starts[shard])
        if starts[shard]:
            births[shard] = starts[shard]
    # IMPORTANT: listed last; a listed shard whose directory is missing is taken for damage.
    return files.rewritten(replace(files.settings, lineages=lineages, births=births))


def _check_starts(starts: object) -> None:
    if not isinstance(starts, Mapping):
        message = f"starts are shard numbers with their first addresses, not {starts!r}"
        raise InvalidRequestError(message)
    for shard, start in starts.items():
        if type(shard) is not int or not 0 <= shard < SHARDS_MAX:
            message = f"shard {shard!r} is not an integer from 0 to {SHARDS_MAX - 1}"
            raise InvalidRequestError(message)
        if type(start) is not int or not 0 <= start < ADDRESS_MAX:
            message = f"start {start!r} of shard {shard} is not an address"
            raise InvalidRequestError(message)
