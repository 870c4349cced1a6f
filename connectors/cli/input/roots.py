"""What a command's ROOT names: a directory of this machine, or servers over one."""

from dataclasses import dataclass
from pathlib import Path

from storage_core import StreamReader, list_streams, root_id
from storage_core.owners_reader import OwnersReader
from storage_core.remote.addresses import names_servers
from storage_core.remote.served_root import ask_root
from storage_core.remote_reader import RemoteReader


@dataclass(frozen=True, slots=True)
class NamedRoot:
    """A root, wherever it lies.

    Attributes:
        place: Its path, or the addresses of its servers: what `StreamReader.open` takes.
        root_id: Its random id.
        directory: Its path; None where servers are over it.
        streams: The names of its streams.
    """

    place: str
    root_id: str
    directory: Path | None
    streams: tuple[str, ...]


def root_named(root: str) -> NamedRoot:
    """Return what a root is.

    Raises:
        ShardlogError: It is none, or no server answers.
    """
    if names_servers(root):
        served = ask_root(root)
        return NamedRoot(served.servers, served.root_id, None, served.streams)
    directory = Path(root).absolute()
    return NamedRoot(str(directory), root_id(directory), directory, tuple(list_streams(directory)))


def sizes_of(reader: StreamReader) -> dict[int, int]:
    """Return the bytes that each shard takes on the disk of the server that a reader asks."""
    return reader.sizes() if isinstance(reader, RemoteReader | OwnersReader) else {}
