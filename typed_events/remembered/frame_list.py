"""The frames of a remembered query: lists of them that follow each other, by compare-and-set.

    <directory>/list-<generation>.json              the frames, and what of the stream they cover
    <directory>/frame-<generation>-<random>.arrow   a frame, written for the list of a generation

The list of the highest generation holds. The next is a file of a name that must not exist yet, so
of two who make one from the same list one is refused. What a list does not name, and was written
for its generation or one before, is nobody's and is deleted.
"""

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage_core import CorruptionError, UnavailableError
from storage_core.platform.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    write_once,
)
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.remembered.frames import Frame

_log = logging.getLogger(__name__)
_LIST: Final = re.compile(r"list-([0-9]{12})\.json\Z")
_WRITTEN_FOR: Final = re.compile(r"(?:list|frame)-([0-9]{12})[-.]")
TRIES_MAX: Final = 16
# Returns the digest of the row at an address of each shard; None where there is none.
Digests = Callable[[Mapping[int, int]], Mapping[int, str | None]]


class LastRow(NamedTuple):
    """The last row of a shard that is covered: copies that went on apart have others there."""

    address: int
    digest: str | None


@dataclass(frozen=True, slots=True)
class FrameList:
    """The frames of a query.

    Attributes:
        generation: Which list it is; 0 before the first.
        incarnation: The stream that the rows are of.
        lineages: The log of each shard that they are of.
        covered: Up to which address the rows of each shard are in frames.
        last_rows: The last row of each shard below that address.
        fields: The type of each field by then.
        frames: The frames, in the order of what they cover.
    """

    generation: int = 0
    incarnation: str = ""
    lineages: Mapping[int, str] = field(default_factory=dict)
    covered: Mapping[int, int] = field(default_factory=dict)
    last_rows: Mapping[int, LastRow] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()

    def before(self, number: int) -> "FrameList":
        """Return the list without a frame, and those behind it: the log has their rows."""
        return replace(self, covered=self.frames[number].starts, frames=self.frames[:number])

    def as_of(
        self, snapshot: PooledSnapshot, fields: Mapping[str, str], digests: Digests
    ) -> "FrameList":
        """Return itself, or an empty list if the stream is no more what frames are of.

        An older copy that was put in its place keeps the lineages: its rows tell. Fields may have
        been added since: rows before have none. Where a field's type is another, conditions may
        be, too.
        """
        covered = [(n, place) for n, place in snapshot.settled.items() if n in self.covered]
        is_same = (
            self.incarnation == snapshot.incarnation
            and all(self.lineages[n] == place.lineage for n, place in covered)
            and all(self.covered[n] <= place.address for n, place in covered)
            and all(fields.get(name) == kind for name, kind in self.fields.items())
            and self._has_last_rows([n for n, _ in covered], digests)
        )
        return self if is_same else FrameList(self.generation)

    def _has_last_rows(self, shards: list[int], digests: Digests) -> bool:
        if not {*shards} <= {*self.last_rows}:
            return False
        last_rows = {n: self.last_rows[n] for n in shards}
        now = digests({n: row.address for n, row in last_rows.items()})
        return now == {n: row.digest for n, row in last_rows.items()}


class FrameDirectory:
    """Where the frames of a remembered query lie."""

    def __init__(self, path: Path) -> None:
        """Take the directory, which need not be there."""
        self.path = path

    def current(self) -> FrameList:
        """Return the list that holds; one that is damaged has no frames.

        Raises:
            UnavailableError: Lists follow each other faster than they can be read.
        """
        for _ in range(TRIES_MAX):
            generation = self._newest()
            if not generation:
                return FrameList()
            path = self._list(generation)
            try:
                return _decoded(read_document(path))
            except FileNotFoundError:
                continue
            except (CorruptionError, KeyError, TypeError, ValueError) as error:
                _log.warning("%s is damaged, its frames are made again: %s", path, error)
                return FrameList(generation)
        message = "the frames change faster than they can be read; try again"
        raise UnavailableError(message, path=self.path)

    def new_frame(self, generation: int) -> Path:
        """Return where a frame for a list of a generation may be written."""
        with file_errors(self.path, "making a directory"):
            make_directories(self.path)
        return self.path / f"frame-{generation:012}-{secrets.token_hex(8)}.arrow"

    def publish(self, listed: FrameList) -> bool:
        """Make a list the one that holds; durable on return.

        Returns:
            False if somebody else made the next one, or the query was forgotten.

        Raises:
            UnavailableError: The disk is full, failing or forbidden.
        """
        path = self._list(listed.generation)
        with file_errors(path, "writing a list of frames"):
            try:
                if not write_once(path, encode_document(_encoded(listed))):
                    return False
            except FileNotFoundError:
                return False
            if self._newest() != listed.generation:
                # It came so late that the list of its generation was deleted already.
                path.unlink(missing_ok=True)
                return False
            self._delete_unlisted(listed)
        return True

    def _newest(self) -> int:
        return max(
            (int(match[1]) for name in self._names() if (match := _LIST.match(name))), default=0
        )

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []

    def _list(self, generation: int) -> Path:
        return self.path / f"list-{generation:012}.json"

    def _delete_unlisted(self, listed: FrameList) -> None:
        names = {self._list(listed.generation).name, *(frame.file for frame in listed.frames)}
        for name in self._names():
            match = _WRITTEN_FOR.match(name)
            if name not in names and match and int(match[1]) <= listed.generation:
                with suppress(OSError):
                    (self.path / name).unlink(missing_ok=True)


def _encoded(listed: FrameList) -> dict[str, object]:
    document: dict[str, object] = _plain(asdict(listed))
    return document


def _plain(value: Any) -> Any:  # noqa: ANN401 - as JSON has it, so that its checksum is that of it
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _decoded(document: Mapping[str, Any]) -> FrameList:
    frames = tuple(
        Frame(
            **{
                **frame,
                "starts": _by_shard(frame["starts"]),
                "ends": _by_shard(frame["ends"]),
                "shards": tuple(frame["shards"]),
            }
        )
        for frame in document["frames"]
    )
    return FrameList(
        document["generation"],
        document["incarnation"],
        _by_shard(document["lineages"]),
        _by_shard(document["covered"]),
        {n: LastRow(*row) for n, row in _by_shard(document["last_rows"]).items()},
        document["fields"],
        frames,
    )


def _by_shard(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(shard): value for shard, value in values.items()}
