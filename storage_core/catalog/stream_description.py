"""What a stream's own files say of it: what it is made from, its options, its shards.

Two small files are read and no shard is opened, so it costs the same whatever the number of
shards, and says the same whatever state they are in. Any process may ask, beside any writer.
"""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_file import read_stream


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """What a stream's files say.

    Attributes:
        name: The stream's name.
        incarnation: The random id made with the stream, in hex.
        origin: What the stream is a copy of; None if its rows come from callers.
        options: The options that hold.
        shards: The shards there are, whether they can be opened or not, sorted.
    """

    name: str
    incarnation: str
    origin: StreamOrigin | None
    options: StreamOptions
    shards: tuple[int, ...]


def describe_stream(root: str | PathLike[str], name: str) -> StreamDescription:
    """Return what a stream's files say of it.

    Raises:
        InvalidRequestError: There is no such stream.
        UnsupportedFormatError: It needs a newer shardlog.
        CorruptionError: Its files are damaged.
    """
    files = read_stream(Path(root), name, is_whole=False)
    return StreamDescription(
        name,
        files.meta.incarnation,
        files.meta.origin,
        files.settings.options,
        tuple(sorted(files.settings.lineages)),
    )
