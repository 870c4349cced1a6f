"""What is refused of a manifest before anything of it is used: numbers that do not fit each other.

Its checksum proves that it was not damaged, and says nothing of who wrote it. Each number is one,
in its range; the ranges of a shard's chunks follow each other, and with what was lost they are all
addresses up to where the shard stood; counts are the sums of what they count; and names are those
of files in the directory, each once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from storage_core.catalog.options import SHARDS_MAX
from storage_core.errors import CorruptionError
from storage_core.export.manifest import (
    Chunk,
    Codec,
    ExportedFile,
    FormName,
    Manifest,
    ShardMoment,
)
from storage_core.format.keys import ADDRESS_MAX

_DIGEST: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_EXPORT: Final = re.compile(r"[0-9a-f]{1,64}", re.ASCII)


def refuse_false(manifest: Manifest, path: Path) -> None:
    """Refuse a manifest that no export can have.

    Raises:
        CorruptionError: Something in it is none, or does not fit the rest; it names the shard, and
            the addresses.
    """
    check = _Check(manifest, path)
    check.head()
    for shard, place in manifest.places.items():
        check.place(shard, place)
    shards: dict[int, list[Chunk]] = {}
    for chunk in manifest.chunks:
        check.chunk(chunk)
        shards.setdefault(chunk.shard, []).append(chunk)
    for shard, place in manifest.places.items():
        check.covers(shard, place, shards.get(shard, []))


class _Check:
    """One manifest."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self._manifest = manifest
        self._path = path
        self._names: set[str] = set()

    def head(self) -> None:
        manifest: Any = self._manifest
        choices: Mapping[str, tuple[object, Sequence[object]]] = {
            "form": (manifest.form, get_args(FormName)),
            "codec": (manifest.codec, get_args(Codec)),
            "key_mode": (manifest.key_mode, ("none", "dictionary")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                self._refuse(f"{name}: {value!r} is none of {', '.join(map(str, allowed))}")
        if not isinstance(manifest.export, str) or not _EXPORT.fullmatch(manifest.export):
            self._refuse(f"export: {_short(manifest.export)} is no id of one")
        if not isinstance(manifest.stream, str):
            self._refuse(f"stream: {_short(manifest.stream)} is no name")
        self._whole("jitter", manifest.jitter, 0, ADDRESS_MAX)
        self._whole("shards", manifest.shards, 0, SHARDS_MAX)
        for name in ("shards", "jitter", "key_mode") if manifest.origin is None else ():
            # A stream is made by the options.
            if getattr(manifest, name) != getattr(manifest.options, name):
                self._refuse(f"{name}: {getattr(manifest, name)}, and among the options another")
        if manifest.origin is None and sorted(manifest.places) != list(range(manifest.shards)):
            self._refuse(
                f"it has {manifest.shards} shards, and tells of {sorted(manifest.places)[:20]}"
            )

    def place(self, shard: int, place: ShardMoment) -> None:
        self._whole("committed", place.committed, 0, ADDRESS_MAX, shard)
        self._whole("born", place.born, 0, place.committed, shard)
        self._whole("start", place.start, place.born, place.committed, shard)
        if place.source is not None and not isinstance(place.source, dict):
            self._refuse(f"source: {_short(place.source)} is no object", shard)
        for name, ranges in (("gaps", place.gaps), ("lost", place.lost)):
            self._ranges(name, ranges, shard, place)

    def chunk(self, chunk: Chunk) -> None:
        shard = chunk.shard
        place = self._manifest.places.get(shard) if type(shard) is int else None
        if place is None:
            self._refuse(f"it has rows of shard {_short(shard)}, of which it tells nothing else")
        self._whole("end", chunk.end, 0, place.committed, shard)
        self._whole("start", chunk.start, place.born, chunk.end - 1, shard)
        for file in chunk.files:
            self._file(file, chunk)
        if chunk.rows > chunk.end - chunk.start:
            message = f"{chunk.rows} rows have {chunk.end - chunk.start} addresses"
            self._refuse(message, shard, chunk.start, chunk.end)

    def covers(self, shard: int, place: ShardMoment, chunks: Sequence[Chunk]) -> None:
        """Refuse chunks that have an address twice, or leave one out that is not lost."""
        ranges = [(one.start, one.end, True) for one in chunks]
        if ranges != sorted(ranges):
            self._refuse("the chunks are not in the order of their addresses", shard)
        ranges += [(*one, False) for one in place.lost]
        reached, unnamed = place.born, 0
        for start, end, is_chunk in sorted(ranges):
            if is_chunk and start < reached:
                self._refuse("addresses lie in two chunks", shard, start, reached)
            unnamed += max(0, start - reached)
            reached = max(reached, end)
        unnamed += max(0, place.committed - reached)
        if unnamed:
            message = f"the shard ends at {place.committed}, and chunks reach to {reached}"
            self._refuse(message, shard, place.born, place.committed)

    def _file(self, file: ExportedFile, chunk: Chunk) -> None:
        shard, name = chunk.shard, file.name
        if name in self._names:
            self._refuse(f"{name} is named twice", shard)
        self._names.add(name)
        if not isinstance(file.kind, str):
            self._refuse(f"kind: {_short(file.kind)} is no name", shard)
        if file.schema is not None:
            self._whole("schema", file.schema, 0, len(self._manifest.schemas) - 1, shard)
        self._whole("rows", file.rows, 1, chunk.end - chunk.start, shard)
        self._whole("bytes", file.bytes, 1, 2**63 - 1, shard)
        start = max(chunk.start, self._manifest.places[shard].start)
        self._whole("first", file.first, start, chunk.end - 1, shard)
        before = (0, -1)
        for piece in file.pieces:
            digest: object = piece.digest
            self._whole("bytes of a piece", piece.bytes, before[0] + 1, file.bytes, shard)
            self._whole("rows of a piece", piece.rows, max(0, before[1]), file.rows, shard)
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                self._refuse(f"{_short(digest)} is no digest", shard)
            before = (piece.bytes, piece.rows)
        if before != (file.bytes, file.rows):
            message = (
                f"{name} has {file.rows} rows and {file.bytes} bytes, and its pieces {before[1]}"
            )
            self._refuse(f"{message} and {before[0]}", shard, chunk.start, chunk.end)

    def _ranges(self, name: str, ranges: Iterable[Any], shard: int, place: ShardMoment) -> None:
        before = 0
        for bounds in ranges:
            if len(bounds) != 2:  # noqa: PLR2004 - where it begins and ends
                self._refuse(f"{name}: {_short(bounds)} is no range", shard)
            start, end = bounds
            self._whole(f"end of one of {name}", end, 1, place.committed, shard)
            self._whole(f"start of one of {name}", start, before, end - 1, shard)
            before = end if name == "gaps" else 0

    def _whole(
        self, name: str, value: object, least: int, most: int, shard: int | None = None
    ) -> None:
        if type(value) is not int or not least <= value <= most:
            range_ = f"an integer from {least} to {most}" if least <= most else "what may be there"
            self._refuse(f"{name}: {_short(value)} is not {range_}", shard)

    def _refuse(
        self, what: str, shard: int | None = None, start: int | None = None, end: int | None = None
    ) -> NoReturn:
        message = f"no export wrote this manifest: {what}"
        shard = shard if type(shard) is int else None
        raise CorruptionError(message, path=self._path, shard=shard, start=start, end=end)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:50] + "…"  # noqa: PLR2004 - a line
