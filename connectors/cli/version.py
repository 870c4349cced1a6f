"""Which version of shardlog this is."""


def installed_version() -> str:
    """Return the version of the installed distribution; of a bare checkout nothing is known."""
    from importlib import metadata  # noqa: PLC0415 - loads what reads mail, for a name and a number

    try:
        return metadata.version("shardlog")
    except metadata.PackageNotFoundError:
        return "unknown"
