"""Up to where shards were published, for other processes: a small file a shard.

    <root>/~lake/<stream>~<shard>.json
    <root>/~lake/<stream>~all.json         what a publish left that had nothing left to do

Whoever publishes leaves it, be it a command or a worker's process. A note is information: the table
alone says what is published. It is not synced, and a disk that does not take it stops nobody. It
tells without a question to the store what was known last: `shardlog status`, the board, and the
next worker, which may find the store away. A table that is not there though a note names its place
is lost (lost_table.py).
"""

import json
import os
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from storage_core.catalog.lake_uri import checked_lake_uri
from storage_core.catalog.root_file import share_with_root
from storage_core.catalog.stream_file import read_stream
from storage_core.errors import InvalidRequestError
from storage_core.platform.durable_file import DRAFT

_DIRECTORY: Final = "~lake"
_SUFFIX: Final = ".json"
_ALL: Final = "all"
# What file systems take, in bytes; names of streams have one each character.
_NAME_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class LakeNote:
    """Up to where a shard was published.

    Attributes:
        lake: Where the table is.
        lineage: The lineage of the shard's log.
        published: The address below which the table has its rows.
        since_ms: When it was published.
    """

    lake: str
    lineage: str
    published: int
    since_ms: int


class LakeNotes:
    """The notes under a root. Any thread, and any process."""

    def __init__(self, root: Path) -> None:
        """Touch nothing yet.

        Args:
            root: The directory that holds the streams.
        """
        self._root = root

    def write(self, stream: str, notes: Mapping[int, LakeNote]) -> None:
        """Leave notes of shards in place of those that are there, if the disk takes them."""
        with suppress(OSError):
            self._make_directory()
            for shard, note in notes.items():
                self._put(self._place(stream, shard), json.dumps(asdict(note), indent=1))

    def write_whole(self, stream: str, note: Mapping[str, Any]) -> None:
        """Note what a publish left that had nothing left to do (unchanged.py)."""
        with suppress(OSError):
            self._make_directory()
            self._put(self._place(stream, _ALL), json.dumps(note, indent=1))

    def whole(self, stream: str) -> Mapping[str, Any] | None:
        """Return what `write_whole` noted last; None if nothing is known."""
        return self._note(stream, _ALL)

    def published(self, stream: str, shard: int, lake: str | None, lineage: str) -> int | None:
        """Return up to where a shard's log was published there, as far as is known.

        Args:
            stream: The stream.
            shard: The shard.
            lake: Where the stream's table is.
            lineage: The lineage of the shard's log.
        """
        note = self._note(stream, shard)
        if note is None or (note.get("lake"), note.get("lineage")) != (lake, lineage):
            return None
        published = note.get("published")
        return published if isinstance(published, int) else None

    def has_published(self, stream: str, uri: str, lineages: Mapping[int, Collection[str]]) -> bool:
        """Tell whether a log of a stream was published to a place, as far as is known.

        Args:
            stream: The stream.
            uri: Where its table was.
            lineages: The lineages of each shard's logs.
        """
        for shard, logs_of_shard in lineages.items():
            note = self._note(stream, shard) or {}
            if note.get("lineage") in logs_of_shard and _is_at(note, uri):
                return True
        whole = self._note(stream, _ALL) or {}
        logs = whole.get("shards")
        if not isinstance(logs, dict) or not _is_at(whole, uri):
            return False
        noted = {shard: logs.get(str(shard)) for shard in lineages}
        return any(
            isinstance(log, list) and bool(log) and log[0] in lineages[shard]
            for shard, log in noted.items()
        )

    def _note(self, stream: str, shard: int | str) -> Mapping[str, Any] | None:
        with suppress(OSError, ValueError, RecursionError):
            note = json.loads(self._place(stream, shard).read_bytes())
            return note if isinstance(note, dict) else None
        return None

    def _make_directory(self) -> None:
        directory = self._root / _DIRECTORY
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            share_with_root(directory, self._root, 0o7777)

    def _put(self, place: Path, text: str) -> None:
        """Put a file in place, whole."""
        draft = place.with_name(f"{os.getpid()}-{secrets.token_hex(4)}{DRAFT}")
        try:
            draft.write_text(text, encoding="utf-8")
            share_with_root(draft, self._root, 0o666)
            draft.replace(place)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def _place(self, stream: str, shard: int | str) -> Path:
        name = f"{stream}~{shard}"
        is_long = len(name) + len(_SUFFIX) > _NAME_MAX
        return self._root / _DIRECTORY / (name if is_long else name + _SUFFIX)


def was_published(root: str | PathLike[str], name: str, uri: str) -> bool:
    """Tell whether a log that a stream has, or has archived, was published to a place.

    As far as is known on this machine.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        uri: Where its table was, however that is spelled.

    Raises:
        InvalidRequestError: There is no such stream.
        CorruptionError: A file of the stream is damaged.
    """
    files = read_stream(Path(root).absolute(), name, is_whole=False)
    lineages = {shard: [lineage.hex()] for shard, lineage in files.settings.lineages.items()}
    for log in files.settings.archived:
        lineages.setdefault(log.shard, []).append(log.lineage)
    place = checked_lake_uri(uri)
    return LakeNotes(files.directory.parent).has_published(name, place, lineages)


def _is_at(note: Mapping[str, Any], uri: str) -> bool:
    """Tell whether a note is of a place, however that is spelled."""
    try:
        return checked_lake_uri(str(note.get("lake"))) == uri
    except InvalidRequestError:
        return False
