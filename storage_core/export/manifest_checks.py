"""Checks of a manifest before it is used: anybody may have written it.

Its checksum shows that it is not damaged, but not who wrote it. Each number must be an integer in
its range; the row ranges of a shard must be in order, and with the lost ranges cover all addresses
up to its end; totals must be sums; file names must be unique names in the directory.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from storage_core.catalog.options import SHARDS_MAX
from storage_core.errors import CorruptionError
from storage_core.export.manifest import (
    Codec,
    ExportedFile,
    ExportedShard,
    FormatName,
    Manifest,
    RowRange,
)
from storage_core.format.keys import ADDRESS_MAX

_DIGEST: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_EXPORT: Final = re.compile(r"[0-9a-f]{1,64}", re.ASCII)


def check_manifest(manifest: Manifest, path: Path) -> None:
    """Refuse a manifest that no export can have.

    Raises:
        CorruptionError: A value is invalid or contradicts others; with the shard and addresses.
    """
    check = _ManifestCheck(manifest, path)
    check.header()
    for shard, exported_shard in manifest.exported_shards.items():
        check.exported_shard(shard, exported_shard)
    by_shard: dict[int, list[RowRange]] = {}
    for row_range in manifest.row_ranges:
        check.row_range(row_range)
        by_shard.setdefault(row_range.shard, []).append(row_range)
    for shard, exported_shard in manifest.exported_shards.items():
        check.coverage(shard, exported_shard, by_shard.get(shard, []))


class _ManifestCheck:
    """One manifest."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self._manifest = manifest
        self._path = path
        self._names: set[str] = set()

    def header(self) -> None:
        manifest: Any = self._manifest
        choices: Mapping[str, tuple[object, Sequence[object]]] = {
            "file_format": (manifest.file_format, get_args(FormatName)),
            "codec": (manifest.codec, get_args(Codec)),
            "key_mode": (manifest.key_mode, ("none", "dictionary")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                self._refuse(f"{name}: {value!r} is not one of {', '.join(map(str, allowed))}")
        if not isinstance(manifest.export, str) or not _EXPORT.fullmatch(manifest.export):
            self._refuse(f"export: {_short(manifest.export)} is not an id")
        if not isinstance(manifest.stream, str):
            self._refuse(f"stream: {_short(manifest.stream)} is not a name")
        self._integer("jitter", manifest.jitter, 0, ADDRESS_MAX)
        self._integer("shards", manifest.shards, 0, SHARDS_MAX)
        for name in ("shards", "jitter", "key_mode") if manifest.origin is None else ():
            # The stream is created with the options.
            if getattr(manifest, name) != getattr(manifest.options, name):
                self._refuse(f"{name}: {getattr(manifest, name)}, but the options have another")
        if manifest.origin is None and sorted(manifest.exported_shards) != list(
            range(manifest.shards)
        ):
            described = sorted(manifest.exported_shards)[:20]
            self._refuse(f"it has {manifest.shards} shards, but describes {described}")

    def exported_shard(self, shard: int, exported_shard: ExportedShard) -> None:
        self._integer("committed", exported_shard.committed, 0, ADDRESS_MAX, shard)
        self._integer("born", exported_shard.born, 0, exported_shard.committed, shard)
        self._integer(
            "start", exported_shard.start, exported_shard.born, exported_shard.committed, shard
        )
        if exported_shard.source is not None and not isinstance(exported_shard.source, dict):
            self._refuse(f"source: {_short(exported_shard.source)} is not an object", shard)
        for name, ranges in (("gaps", exported_shard.gaps), ("lost", exported_shard.lost)):
            self._address_ranges(name, ranges, shard, exported_shard)

    def row_range(self, row_range: RowRange) -> None:
        shard = row_range.shard
        exported_shard = self._manifest.exported_shards.get(shard) if type(shard) is int else None
        if exported_shard is None:
            self._refuse(f"it has rows of shard {_short(shard)}, which it does not describe")
        self._integer("end", row_range.end, 0, exported_shard.committed, shard)
        self._integer("start", row_range.start, exported_shard.born, row_range.end - 1, shard)
        for file in row_range.files:
            self._file(file, row_range)
        if row_range.rows > row_range.end - row_range.start:
            message = f"{row_range.rows} rows in {row_range.end - row_range.start} addresses"
            self._refuse(message, shard, row_range.start, row_range.end)

    def coverage(
        self, shard: int, exported_shard: ExportedShard, row_ranges: Sequence[RowRange]
    ) -> None:
        """Refuse row ranges that overlap, or leave out addresses that are not lost."""
        bounds = [(row_range.start, row_range.end, True) for row_range in row_ranges]
        if bounds != sorted(bounds):
            self._refuse("row ranges are not in order of address", shard)
        bounds += [(*row_range, False) for row_range in exported_shard.lost]
        reached, missing = exported_shard.born, 0
        for start, end, is_row_range in sorted(bounds):
            if is_row_range and start < reached:
                self._refuse("row ranges overlap", shard, start, reached)
            missing += max(0, start - reached)
            reached = max(reached, end)
        missing += max(0, exported_shard.committed - reached)
        if missing:
            message = (
                f"the shard ends at {exported_shard.committed}, but row ranges end at {reached}"
            )
            self._refuse(message, shard, exported_shard.born, exported_shard.committed)

    def _file(self, file: ExportedFile, row_range: RowRange) -> None:
        shard, name = row_range.shard, file.name
        if name in self._names:
            self._refuse(f"{name} is repeated", shard)
        self._names.add(name)
        if not isinstance(file.value_schema, str):
            self._refuse(f"value_schema: {_short(file.value_schema)} is not a name", shard)
        if file.schema is not None:
            self._integer("schema", file.schema, 0, len(self._manifest.schemas) - 1, shard)
        self._integer("rows", file.rows, 1, row_range.end - row_range.start, shard)
        self._integer("bytes", file.bytes, 1, 2**63 - 1, shard)
        start = max(row_range.start, self._manifest.exported_shards[shard].start)
        self._integer("first", file.first, start, row_range.end - 1, shard)
        previous = (0, -1)
        for prefix in file.prefixes:
            digest: object = prefix.digest
            self._integer("bytes of a prefix", prefix.bytes, previous[0] + 1, file.bytes, shard)
            self._integer("rows of a prefix", prefix.rows, max(0, previous[1]), file.rows, shard)
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                self._refuse(f"{_short(digest)} is not a digest", shard)
            previous = (prefix.bytes, prefix.rows)
        if previous != (file.bytes, file.rows):
            message = (
                f"{name} has {file.rows} rows and {file.bytes} bytes, but its prefixes "
                f"{previous[1]} and {previous[0]}"
            )
            self._refuse(message, shard, row_range.start, row_range.end)

    def _address_ranges(
        self, name: str, ranges: Iterable[Any], shard: int, exported_shard: ExportedShard
    ) -> None:
        previous = 0
        for bounds in ranges:
            if len(bounds) != 2:  # noqa: PLR2004 - where it begins and ends
                self._refuse(f"{name}: {_short(bounds)} is not a range", shard)
            start, end = bounds
            self._integer(f"end of one of {name}", end, 1, exported_shard.committed, shard)
            self._integer(f"start of one of {name}", start, previous, end - 1, shard)
            previous = end if name == "gaps" else 0

    def _integer(
        self, name: str, value: object, minimum: int, maximum: int, shard: int | None = None
    ) -> None:
        if type(value) is not int or not minimum <= value <= maximum:
            range_ = (
                f"an integer from {minimum} to {maximum}" if minimum <= maximum else "allowed there"
            )
            self._refuse(f"{name}: {_short(value)} is not {range_}", shard)

    def _refuse(
        self,
        problem: str,
        shard: int | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> NoReturn:
        message = f"no export wrote this manifest: {problem}"
        shard = shard if type(shard) is int else None
        raise CorruptionError(message, path=self._path, shard=shard, start=start, end=end)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:50] + "…"  # noqa: PLR2004 - a line
