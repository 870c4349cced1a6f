"""Where the table of a stream is, and how its store is reached, as a command is told."""

from pathlib import Path

from storage_core import InvalidRequestError, describe_stream
from storage_core.lake import LakeTarget, lake_options, lake_target


def stream_target(root: Path, stream: str, options_file: Path | None) -> LakeTarget:
    """Return the place that a stream's option `lake` names.

    Raises:
        InvalidRequestError: There is no such stream, it has no lake, or the file has no options.
    """
    uri = describe_stream(root, stream).options.lake
    if uri is None:
        command = f"shardlog alter {root} {stream} lake=s3://bucket/{stream}"
        message = f"{stream!r} has no lake; name one: `{command}`"
        raise InvalidRequestError(message)
    return lake_target(uri, lake_options(None, options_file))
