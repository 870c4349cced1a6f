"""Where a job's streams are: a root by its path, or the servers over one.

    place = root_of("./data")                        the whole path
    place = root_of("shardlog://a:8085,b:8085")      as it is
    options_of(place)                                `path` or `server` of the source and the sink

Nothing that a job keeps lies in the root: how far it came is in its checkpoint, and what has landed
is noted beside the files. So a job goes on from its checkpoint by the other way to the same root.
"""

from pathlib import Path

from storage_core.remote.addresses import names_servers
from storage_core.remote.one_root import refuse_servers_of_several_roots


def root_of(root: str | Path) -> str:
    """Return a root as all processes of a job find it, whatever their working directory is."""
    return str(root) if names_servers(root) else str(Path(root).absolute())


def refuse_several(root: str) -> None:
    """Refuse servers over several roots, of which a job that writes would have to choose one.

    Raises:
        InvalidRequestError: They are.
        UnavailableError: No server answers.
    """
    if names_servers(root):
        refuse_servers_of_several_roots(root, "the job writes to one")


def options_of(root: str) -> dict[str, str]:
    """Return the option by which Spark's source and sink find a root."""
    return {"server" if names_servers(root) else "path": root}
