"""Which shardlog this is."""

from importlib import metadata


def installed_version() -> str:
    """Return the version of the installed distribution; of a bare checkout nothing is known."""
    try:
        return metadata.version("shardlog")
    except metadata.PackageNotFoundError:
        return "unknown"
