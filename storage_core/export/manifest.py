"""The manifest of an export: the stream, the selected rows, and each file with its digests.

    <export>/manifest.json      JSON with a checksum; written last, so an export with one is whole
    <export>/<shard>-<address>… the rows of one shard in a range of addresses, in one file or
                                several, one for each value schema

The ranges of a shard are in the order of addresses. A file has digests of growing prefixes; so the
rows before a damaged or missing byte can be verified.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from storage_core.catalog.document_format import check_format, format_field
from storage_core.catalog.options import KeyMode, StreamOptions
from storage_core.catalog.origin import StreamOrigin, decode_origin, encode_origin
from storage_core.catalog.stream_meta import decode_options, encode_options, unknown_options
from storage_core.errors import CorruptionError, InvalidRequestError, UnsupportedFormatError
from storage_core.export.manifest_fields import field_differences, names_of
from storage_core.export.memory_budget import objects_in
from storage_core.export.regular_file import opened_regular
from storage_core.format.schema_entry import SchemaEntry
from storage_core.platform.durable_file import decode_document, encode_document

MANIFEST_FILE: Final = "manifest.json"
_JSON_MEMORY_FACTOR: Final = 4
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII)
# The fields of a manifest that are the same in JSON.
_PLAIN_FIELDS: Final = (
    *("export", "file_format", "codec", "stream", "incarnation", "jitter", "shards", "key_mode"),
    "exported_at_ms",
)
FormatName = Literal["parquet", "avro", "jsonl"]
Codec = Literal["deflate", "zstandard"]
AddressRanges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first bytes of a file, the number of rows in them, and their digest."""

    bytes: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of a row range.

    Attributes:
        name: Its name in the directory.
        value_schema: The full name of the schema of its values; empty for raw bytes.
        schema: The number in the manifest of the schema of all its rows; None if of several.
        rows: The number of rows.
        bytes: Its size.
        first: The lowest address of its rows.
        prefixes: Growing prefixes with their digests; the last one is the whole file.
    """

    name: str
    value_schema: str
    schema: int | None
    rows: int
    bytes: int
    first: int
    prefixes: tuple[Prefix, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the file with these fields.

        Raises:
            ValueError: Its name is not one that an export writes.
        """
        name = fields["name"]
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"{str(name)[:80]!r} is not a file name"
            raise ValueError(message)
        prefixes = tuple(Prefix(**prefix) for prefix in fields["prefixes"])
        return cls(**{**fields, "prefixes": prefixes})


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows of a shard in a range of addresses."""

    shard: int
    start: int
    end: int
    files: tuple[ExportedFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the range with these fields."""
        return cls(**{**fields, "files": tuple(map(ExportedFile.of, fields["files"]))})


@dataclass(frozen=True, slots=True)
class ExportedShard:
    """A shard as it was when it was exported.

    Attributes:
        lineage: The random id of its log.
        born: The first address that it can ever have had.
        start: The first address that it had then.
        committed: The exclusive end of the committed rows.
        gaps: Skipped addresses below that, which the source no longer had.
        lost: Lost addresses, which the caller asked to leave out.
        source: The position in the source of its rows.
    """

    lineage: str
    born: int
    start: int
    committed: int
    gaps: AddressRanges
    lost: AddressRanges
    source: dict[str, Any] | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the shard with these fields."""
        bounds = {name: tuple(map(tuple, fields[name])) for name in ("gaps", "lost")}
        return cls(**{**fields, **bounds})


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows to export; None for no bound."""

    start: int | None = None
    end: int | None = None
    ids: tuple[int, ...] | None = None
    keys: tuple[bytes | None, ...] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether it is all rows."""
        return self == RowSelection()

    @property
    def has_whole_ids(self) -> bool:
        """Whether it has all rows of an id, from which the states of rows follow."""
        return self.start is None and self.end is None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the selection with these fields."""
        ids, keys = fields["ids"], fields["keys"]
        return cls(
            fields["start"],
            fields["end"],
            None if ids is None else tuple(ids),
            None if keys is None else tuple(None if k is None else b64decode(k) for k in keys),
        )

    def fields(self) -> dict[str, object]:
        """Return its fields for JSON."""
        keys = self.keys and [None if key is None else b64encode(key).decode() for key in self.keys]
        return {**asdict(self), "keys": keys}


@dataclass(frozen=True, slots=True)
class Manifest:
    """An export: the stream when it was exported, the selection, and the row ranges."""

    export: str
    file_format: FormatName
    codec: Codec
    stream: str
    incarnation: str
    jitter: int
    shards: int
    key_mode: KeyMode
    origin: StreamOrigin | None
    options: StreamOptions
    selection: RowSelection
    exported_at_ms: int
    exported_shards: Mapping[int, ExportedShard]
    schemas: tuple[SchemaEntry, ...]
    row_ranges: tuple[RowRange, ...] = ()

    @property
    def has_keys(self) -> bool:
        """Whether rows have keys, not secondaries."""
        return self.key_mode == "dictionary"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(row_range.rows for row_range in self.row_ranges)

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.bytes for row_range in self.row_ranges for file in row_range.files)

    def has_same_request(self, other: "Manifest") -> bool:
        """Tell whether another export has the same selection and format of the same stream."""
        names = ("file_format", "codec", "stream", "incarnation", "selection")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def without_lost_of(self, other: "Manifest") -> "Manifest":
        """Return the manifest with the lost addresses of another one left out."""
        exported_shards = dict(self.exported_shards)
        for number, exported_shard in self.exported_shards.items():
            lost = other.exported_shards[number].lost if number in other.exported_shards else ()
            below = [(first, min(end, exported_shard.committed)) for first, end in lost]
            remaining = tuple(bounds for bounds in below if bounds[0] < bounds[1])
            exported_shards[number] = replace(exported_shard, lost=remaining)
        return replace(self, exported_shards=exported_shards)


_OBJECT_FIELDS: Final = {
    "": (*names_of(Manifest), "format", "rows", "bytes"),
    "selection": names_of(RowSelection),
    "exported_shards.*": names_of(ExportedShard),
    "schemas.*": ("id", "fingerprint", "text"),
    "row_ranges.*": names_of(RowRange),
    "row_ranges.*.files.*": names_of(ExportedFile),
    "row_ranges.*.files.*.prefixes.*": names_of(Prefix),
}


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as bytes."""
    return encode_document(
        {
            **format_field("export"),
            **{name: getattr(manifest, name) for name in _PLAIN_FIELDS},
            "origin": encode_origin(manifest.origin),
            "options": encode_options(manifest.options),
            "selection": manifest.selection.fields(),
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "exported_shards": {
                str(number): asdict(shard) for number, shard in manifest.exported_shards.items()
            },
            "schemas": [
                {
                    "id": entry.registry_id,
                    "fingerprint": entry.fingerprint.hex(),
                    "text": entry.text,
                }
                for entry in manifest.schemas
            ],
            "row_ranges": [asdict(row_range) for row_range in manifest.row_ranges],
        }
    )


def read_manifest(path: Path, bytes_max: int | None = None) -> Manifest:
    """Read a manifest.

    Args:
        path: The file.
        bytes_max: The memory that it may take; None for no limit.

    Raises:
        FileNotFoundError: There is none.
        InvalidRequestError: It is another document, or takes more memory.
        UnsupportedFormatError: Another version of shardlog wrote it.
        CorruptionError: It is damaged.
    """
    document = decode_document(_read_bounded(path, bytes_max), path)
    if not str(document.get("format")).startswith("shardlog-export"):
        message = "this is not the manifest of an export"
        raise InvalidRequestError(message, path=path)
    check_format(document, "export", path)
    try:
        manifest = _decoded(document, path)
        totals = (manifest.rows, manifest.bytes)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if differences := field_differences(document, _OBJECT_FIELDS):
            message = (
                f"another version of shardlog wrote the manifest: {differences}; export the "
                "stream again with this version, or import it with that one"
            )
            raise UnsupportedFormatError(message, path=path) from error
        message = f"a field of the manifest has a value that no export writes: {str(error)[:200]}"
        raise CorruptionError(message, path=path) from error
    if (document.get("rows"), document.get("bytes")) != totals:
        message = (
            f"the manifest has {document.get('rows')!r:.40} rows and {document.get('bytes')!r:.40} "
            f"bytes, and its files {totals[0]} and {totals[1]}"
        )
        raise CorruptionError(message, path=path)
    return manifest


def _read_bounded(path: Path, bytes_max: int | None) -> bytes:
    with opened_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = (
            b""
            if bytes_max is not None and size * _JSON_MEMORY_FACTOR > bytes_max
            else file.read(size)
        )
    if bytes_max is not None and (len(data) < size or objects_in(data) > 2 * bytes_max):
        message = (
            f"the manifest has {size} bytes and would take too much memory; if you trust "
            "it, allow more: `file_bytes_max`, or --file-mib-max"
        )
        raise InvalidRequestError(message, path=path)
    return data


def _decoded(document: Mapping[str, Any], path: Path) -> Manifest:
    unknown = unknown_options(document["options"])
    if unknown:
        message = f"the export has options that this shardlog does not have: {', '.join(unknown)}"
        raise UnsupportedFormatError(message, path=path)
    return Manifest(
        **{name: document[name] for name in _PLAIN_FIELDS},
        origin=decode_origin(document["origin"]),
        options=decode_options(document["options"]),
        selection=RowSelection.of(document["selection"]),
        exported_shards={
            _number(key): ExportedShard.of(shard)
            for key, shard in document["exported_shards"].items()
        },
        schemas=tuple(
            SchemaEntry(entry["id"], bytes.fromhex(entry["fingerprint"]), entry["text"])
            for entry in document["schemas"]
        ),
        row_ranges=tuple(map(RowRange.of, document["row_ranges"])),
    )


def _number(key: str) -> int:
    number = int(key)
    if str(number) != key or number < 0:
        message = f"{key[:40]!r} is not a shard number"
        raise ValueError(message)
    return number


def encode_range(row_range: RowRange) -> str:
    """Return a row range as a line of the journal of an unfinished export."""
    return json.dumps(asdict(row_range), separators=(",", ":"))


def decode_range(line: str) -> RowRange:
    """Return the row range in a line of the journal."""
    return RowRange.of(json.loads(line))
