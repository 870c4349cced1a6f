"""Why parts were not to be found, however often streams were looked at: what is told in the end."""

from collections.abc import Iterable
from os import PathLike

from storage_core.errors import CorruptionError, ShardlogError, UnavailableError
from storage_core.reader import StreamReader


def told_missing(root: str | PathLike[str], streams: Iterable[str]) -> ShardlogError:
    """Return the error: that a part is not there which should be, or that others went on going."""
    for name in streams:
        with StreamReader.open(root, name) as reader:
            for part in reader.parts():
                if not part.path.exists():
                    return CorruptionError(
                        "a part is gone",
                        stream=name,
                        shard=part.shard,
                        path=part.path,
                        start=part.entry.first,
                        end=part.entry.last + 1,
                    )
    return UnavailableError("parts went on being replaced before they could be read")
