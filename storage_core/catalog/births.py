"""Making streams, and adding shards to one whose shards are the partitions of an origin.

Under the lock of the stream's directory, for each shard that is not listed yet:

1. What a crash has left of it is cleared away; it was never listed, so it has no store.
2. Its directory and its marker, which says that the first address is committed, become durable.

Then options.json lists all of them, each with its lineage and first address. From there on
their birth survives any crash: opening a shard that has no store yet makes one that begins
where options.json says. Any number of processes may add the same shards at once; the first
start that is listed holds. Where the stream is made, stream.json comes behind options.json.
"""

import secrets
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from storage_core.catalog.changes import locked, rewritten
from storage_core.catalog.lake_uri import refuse_lake_pattern, refuse_lake_within
from storage_core.catalog.options import SHARD_NUMBERS_MAX, StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.root_file import STREAM_FILE, check_root, is_reserved, make_root_file
from storage_core.catalog.stream_file import StreamFiles, check_name, read_stream, shard_directory
from storage_core.catalog.stream_meta import StreamMeta, StreamSettings, encode_meta
from storage_core.engine.commit_marker import MARKER_FILE, create_marker, open_marker
from storage_core.engine.left_config import has_store
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.keys import ADDRESS_MAX
from storage_core.platform.durable_file import (
    make_directories,
    sync_directory,
    taking_errors,
    write_once,
)

LINEAGE_BYTES: Final = 16
# Is in the directory of a log that was made with its store.
BEGUN_FILE: Final = "begun"


def create_stream(
    root: Path,
    name: str,
    options: StreamOptions,
    origin: StreamOrigin | None = None,
) -> StreamFiles:
    """Make a stream's files; durable on return. With an origin it has no shards yet.

    Raises:
        InvalidRequestError: The name is bad or taken, or the root is not a directory.
        CorruptionError: Shards with data lie there, but no stream.json.
    """
    check_name(name)
    if is_reserved(name):
        message = f"no stream may be called {name!r}: a root keeps a file of its own there"
        raise InvalidRequestError(message, stream=name)
    _check_key_mode(options, origin)
    refuse_lake_pattern(options.lake)
    refuse_lake_within(root, options.lake)
    check_root(root)
    directory = root / name
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            message = "not a directory"
            raise InvalidRequestError(message, stream=name, path=path)
    with taking_errors(directory, "creating the stream"):
        make_directories(directory)
        make_root_file(root)
        with locked(directory):
            return _create_files(directory, name, options, origin)


def _check_key_mode(options: StreamOptions, origin: StreamOrigin | None) -> None:
    wanted = options.key_mode == "dictionary"
    if origin is not None and wanted != (origin.key_mode == "dictionary"):
        message = (
            f"key_mode of the options is {options.key_mode!r} and the origin's is "
            f"{origin.key_mode!r}; a dictionary is in both"
        )
        raise InvalidRequestError(message)


def _create_files(
    directory: Path, name: str, options: StreamOptions, origin: StreamOrigin | None
) -> StreamFiles:
    if (directory / STREAM_FILE).exists():
        message = "the stream exists; open it"
        raise InvalidRequestError(message, stream=name)
    for left in sorted(directory.glob("shard-*")):
        remove_unborn_shard(left, name, "no stream.json")
    shards = options.shards if origin is None else 0
    lineages = {number: make_shard(shard_directory(directory, number)) for number in range(shards)}
    meta = StreamMeta(
        name,
        secrets.token_hex(16),
        options.unit,
        options.scheme.width,
        options.jitter,
        shards,
        origin,
        options.key_mode,
    )
    settings = StreamSettings(options, lineages)
    files = rewritten(StreamFiles(directory, meta, settings), settings)
    # An earlier creation that did not finish may have made these directories.
    for above in (directory.parent, directory.parent.parent):
        sync_directory(above)
    write_once(directory / STREAM_FILE, encode_meta(meta))
    return files


def add_shards(root: Path, name: str, starts: Mapping[int, int]) -> StreamFiles:
    """Make the shards that are not there yet; durable on return.

    Raises:
        InvalidRequestError: There is no such stream, it has no origin, or a number does not fit.
        CorruptionError: A shard with data lies there, but is not listed.
    """
    check_starts(starts)
    files = read_stream(root, name, is_whole=False, shards_open=())
    if files.meta.origin is None:
        message = "the stream has no origin; its shards are fixed when it is created"
        raise InvalidRequestError(message, stream=name)
    with taking_errors(files.directory, "adding shards"), locked(files.directory):
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
    return rewritten(files, replace(files.settings, lineages=lineages, births=births))


def check_starts(starts: object) -> None:
    """Refuse what is no mapping of shard numbers to first addresses."""
    if not isinstance(starts, Mapping):
        message = f"starts are shard numbers with their first addresses, not {starts!r}"
        raise InvalidRequestError(message)
    for shard, start in starts.items():
        if type(shard) is not int or not 0 <= shard < SHARD_NUMBERS_MAX:
            message = f"shard {shard!r} is not an integer from 0 to {SHARD_NUMBERS_MAX - 1}"
            raise InvalidRequestError(message)
        if type(start) is not int or not 0 <= start < ADDRESS_MAX:
            message = f"start {start!r} of shard {shard} is not an address"
            raise InvalidRequestError(message)


def new_lineage() -> bytes:
    """Return the random id of a log to be made."""
    return secrets.token_bytes(LINEAGE_BYTES)


def make_shard(directory: Path, born: int = 0, lineage: bytes | None = None) -> bytes:
    """Make a shard whose log begins at an address; durable on return, listed nowhere yet."""
    lineage = lineage or new_lineage()
    directory.mkdir()
    create_marker(directory / MARKER_FILE, born, lineage)
    sync_directory(directory)
    sync_directory(directory.parent)
    return lineage


def remove_unborn_shard(shard: Path, stream: str, why: str) -> None:
    """Clear what somebody who did not come to list the shard has left.

    It has no store; or one that it was made with, as a file of it says (begun_shards.py), and that
    nobody has opened for writing, which would have raised the generation of its marker first.

    Raises:
        CorruptionError: It has one.
    """
    if has_store(shard) and not _is_unopened(shard):
        message = f"shards with data but {why}; restore it or remove the directory"
        raise CorruptionError(message, stream=stream, path=shard)
    # IMPORTANT: the marker last; it tells whoever is killed here, and comes again.
    for directory in (entry for entry in shard.iterdir() if entry.is_dir()):
        shutil.rmtree(directory)
    shutil.rmtree(shard)


def _is_unopened(shard: Path) -> bool:
    if not (shard / BEGUN_FILE).exists():
        return False
    try:
        marker, _ = open_marker(shard / MARKER_FILE)
    except CorruptionError:
        return False
    if marker is None:
        return False
    with closing(marker):
        return marker.state.generation == 0
