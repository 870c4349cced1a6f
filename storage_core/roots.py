"""What a root is, by its path or by the addresses of servers over it."""

from os import PathLike
from pathlib import Path

from storage_core.catalog import root_file
from storage_core.platform.durable_file import reading_errors
from storage_core.remote.addresses import names_servers
from storage_core.remote.served_root import ask_root


def root_id(root: str | PathLike[str]) -> str:
    """Return the id of a root, which messages about data that lies elsewhere name.

    Args:
        root: The directory, or servers over one (`shardlog://a:8085,b:8085`).

    Raises:
        InvalidRequestError: The directory is none.
        CorruptionError: The file that says so is damaged.
        UnavailableError: No server answers.
    """
    return ask_root(str(root)).root_id if names_servers(root) else root_file.root_id(root)


def make_root(root: Path) -> None:
    """Make a directory a root, if it is none yet.

    Raises:
        UnavailableError: The system does not let it be made.
    """
    with reading_errors(root, "making the root"):
        root.mkdir(parents=True, exist_ok=True)
        root_file.make_root_file(root)


def list_streams(root: str | PathLike[str]) -> list[str]:
    """Return the names of the streams under a root, sorted; of servers, too.

    Raises:
        InvalidRequestError: There is no such root.
        UnavailableError: No server answers, or the system does not give a file.
    """
    if names_servers(root):
        return list(ask_root(str(root)).streams)
    return root_file.list_streams(Path(root))
