"""Why parts were not to be found, or not to be read: what is told in the end."""

from collections.abc import Iterable, Iterator
from os import PathLike

from storage_core.errors import CorruptionError, ShardlogError, UnavailableError
from storage_core.parts.snapshot import Part
from storage_core.reader import StreamReader
from storage_core.verify.part_checks import difference


def told_missing(root: str | PathLike[str], streams: Iterable[str]) -> ShardlogError:
    """Return the error: that a part is not there which should be, or that others went on going."""
    for name, part in _parts(root, streams):
        if not part.path.exists():
            return _damaged(name, part, "a part is gone")
    return UnavailableError("parts went on being replaced before they could be read")


def refuse_damaged(root: str | PathLike[str], streams: Iterable[str]) -> None:
    """Compare the file of each part with its digest, which reads all of it.

    Raises:
        CorruptionError: One is not as it was published.
    """
    for name, part in _parts(root, streams):
        what = difference(part.path, part.entry)
        # One that went meanwhile has expired, or was joined with others.
        if what and part.path.exists():
            raise _damaged(name, part, f"a part {what}")


def _parts(root: str | PathLike[str], streams: Iterable[str]) -> Iterator[tuple[str, Part]]:
    for name in streams:
        with StreamReader.open(root, name) as reader:
            found = reader.parts()
        yield from ((name, part) for part in found)


def _damaged(stream: str, part: Part, what: str) -> CorruptionError:
    return CorruptionError(
        what,
        stream=stream,
        shard=part.shard,
        path=part.path,
        start=part.entry.first,
        end=part.entry.last + 1,
    )
