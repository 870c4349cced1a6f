"""What an export says of itself: the stream, what was taken of it, and each file with its digest.

    <export>/manifest.json      a document with a checksum; written last, so that an export which
                                has one is whole
    <export>/<shard>-<address>… the rows, in chunks: rows of one shard in a range of addresses, in a
                                file or several (one a kind of value)

Chunks of a shard lie in the order of their addresses. A file's digests are of its first bytes, each
of some more; so of a file that was cut or damaged, what is in front of that can be proven.
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
from storage_core.export.bounds import objects_in
from storage_core.export.regular_file import opened_regular
from storage_core.format.schema_entry import SchemaEntry
from storage_core.platform.durable_file import decode_document, encode_document

MANIFEST_FILE: Final = "manifest.json"
_TEXT_TIMES: Final = 4
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII)
FormName = Literal["parquet", "avro", "jsonl"]
Codec = Literal["deflate", "zstandard"]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The first bytes of a file: how many, how many rows they have, and their digest."""

    bytes: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of a chunk.

    Attributes:
        name: Its name in the directory.
        kind: The full name of the schema of its values; empty where bytes are just bytes.
        schema: The number in the manifest of the schema of all of its rows; None if of several.
        rows: How many it has.
        bytes: Its size.
        first: The least address among its rows.
        pieces: What proves it, of ever more bytes; the last one is of all.
    """

    name: str
    kind: str
    schema: int | None
    rows: int
    bytes: int
    first: int
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the file that these fields tell of.

        Raises:
            ValueError: It does not lie in the directory, or has no name that an export gives.
        """
        name = fields["name"]
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"{str(name)[:80]!r} is no file's name"
            raise ValueError(message)
        return cls(**{**fields, "pieces": tuple(Piece(*one) for one in fields["pieces"])})

    def fields(self) -> dict[str, object]:
        """Return it as JSON has it."""
        document = {name: getattr(self, name) for name in self.__slots__}
        return {**document, "pieces": [[one.bytes, one.rows, one.digest] for one in self.pieces]}


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of a shard in a range of addresses."""

    shard: int
    start: int
    end: int
    files: tuple[ExportedFile, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(one.rows for one in self.files)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the chunk that these fields tell of."""
        return cls(**{**fields, "files": tuple(map(ExportedFile.of, fields["files"]))})

    def fields(self) -> dict[str, object]:
        """Return it as JSON has it."""
        document = {"shard": self.shard, "start": self.start, "end": self.end}
        return {**document, "files": [one.fields() for one in self.files]}


@dataclass(frozen=True, slots=True)
class ShardMoment:
    """A shard at the moment of which the export is.

    Attributes:
        lineage: The random id of its log.
        born: The first address it can ever have had.
        start: The first that it had then.
        committed: The exclusive end of what was committed.
        gaps: What was passed over below that, because its source no longer had it.
        lost: What was lost, and left out because that was asked for.
        source: Where the source of its rows stood.
    """

    lineage: str
    born: int
    start: int
    committed: int
    gaps: Ranges
    lost: Ranges
    source: dict[str, Any] | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the moment that these fields tell of."""
        ranges = {name: tuple(map(tuple, fields[name])) for name in ("gaps", "lost")}
        return cls(**{**fields, **ranges})


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows were asked for; None for no bound."""

    start: int | None = None
    end: int | None = None
    ids: tuple[int, ...] | None = None
    keys: tuple[bytes | None, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Tell whether it is all rows."""
        return self == Asked()

    @property
    def has_all_of_an_id(self) -> bool:
        """Tell whether rows keep their states: these follow from the other rows of their ids."""
        return self.start is None and self.end is None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return what these fields tell of."""
        ids, keys = fields["ids"], fields["keys"]
        return cls(
            fields["start"],
            fields["end"],
            None if ids is None else tuple(ids),
            None if keys is None else tuple(None if k is None else b64decode(k) for k in keys),
        )

    def fields(self) -> dict[str, object]:
        """Return it as JSON has it."""
        keys = self.keys and [None if one is None else b64encode(one).decode() for one in self.keys]
        return {**asdict(self), "keys": keys}


@dataclass(frozen=True, slots=True)
class Manifest:
    """An export: the stream at a moment, what was asked of it, and the chunks."""

    export: str
    form: FormName
    codec: Codec
    stream: str
    incarnation: str
    jitter: int
    shards: int
    key_mode: KeyMode
    origin: StreamOrigin | None
    options: StreamOptions
    asked: Asked
    taken_at_ms: int
    places: Mapping[int, ShardMoment]
    schemas: tuple[SchemaEntry, ...]
    chunks: tuple[Chunk, ...] = ()

    @property
    def has_keys(self) -> bool:
        """Tell whether rows belong to keys."""
        return self.key_mode == "dictionary"

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(one.rows for one in self.chunks)

    @property
    def bytes(self) -> int:
        """How many bytes its files have."""
        return sum(file.bytes for one in self.chunks for file in one.files)

    def of_shard(self, shard: int) -> list[Chunk]:
        """Return the chunks of a shard, in the order of their addresses."""
        return [one for one in self.chunks if one.shard == shard]

    def is_asked_alike(self, other: "Manifest") -> bool:
        """Tell whether another asks the same of the same stream, at whatever moment."""
        same = ("form", "codec", "stream", "incarnation", "asked")
        return all(getattr(self, name) == getattr(other, name) for name in same)

    def without_what_is_lost(self, now: "Manifest") -> "Manifest":
        """Return the manifest of the same moment without what another one leaves out as lost."""
        places = dict(self.places)
        for number, place in self.places.items():
            lost = now.places[number].lost if number in now.places else ()
            below = [(first, min(end, place.committed)) for first, end in lost]
            remaining = tuple(one for one in below if one[0] < one[1])
            places[number] = replace(place, lost=remaining)
        return replace(self, places=places)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest."""
    names = ("export", "form", "codec", "stream", "incarnation", "jitter", "shards", "key_mode")
    return encode_document(
        {
            **format_field("export"),
            **{name: getattr(manifest, name) for name in (*names, "taken_at_ms")},
            "origin": encode_origin(manifest.origin),
            "options": encode_options(manifest.options),
            "asked": manifest.asked.fields(),
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "places": {str(number): asdict(one) for number, one in manifest.places.items()},
            "schemas": [
                {"id": one.registry_id, "fingerprint": one.fingerprint.hex(), "text": one.text}
                for one in manifest.schemas
            ],
            "chunks": [one.fields() for one in manifest.chunks],
        }
    )


def read_manifest(path: Path, bytes_max: int | None = None) -> Manifest:
    """Return the manifest in a file.

    Args:
        path: The file.
        bytes_max: How much memory it may take; any if None.

    Raises:
        FileNotFoundError: There is none.
        InvalidRequestError: It is of something else, or takes more than it may.
        UnsupportedFormatError: Another version of shardlog wrote it.
        CorruptionError: It is damaged.
    """
    document = decode_document(_bytes_of(path, bytes_max), path)
    if not str(document.get("format")).startswith("shardlog-export"):
        message = "that is no manifest of an export"
        raise InvalidRequestError(message, path=path)
    check_format(document, "export", path)
    try:
        manifest = _decoded(document, path)
        sums = (manifest.rows, manifest.bytes)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"the manifest cannot be understood: {str(error)[:200]}"
        raise CorruptionError(message, path=path) from error
    if (document.get("rows"), document.get("bytes")) != sums:
        message = (
            f"the manifest has {document.get('rows')!r:.40} rows and {document.get('bytes')!r:.40} "
            f"bytes, and its files {sums[0]} and {sums[1]}"
        )
        raise CorruptionError(message, path=path)
    return manifest


def _bytes_of(path: Path, bytes_max: int | None) -> bytes:
    with opened_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if bytes_max is not None and size * _TEXT_TIMES > bytes_max else file.read(size)
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
    names = ("export", "form", "codec", "stream", "incarnation", "jitter", "shards", "key_mode")
    return Manifest(
        **{name: document[name] for name in (*names, "taken_at_ms")},
        origin=decode_origin(document["origin"]),
        options=decode_options(document["options"]),
        asked=Asked.of(document["asked"]),
        places={_number(key): ShardMoment.of(one) for key, one in document["places"].items()},
        schemas=tuple(
            SchemaEntry(one["id"], bytes.fromhex(one["fingerprint"]), one["text"])
            for one in document["schemas"]
        ),
        chunks=tuple(map(Chunk.of, document["chunks"])),
    )


def _number(key: str) -> int:
    number = int(key)
    if str(number) != key or number < 0:
        message = f"{key[:40]!r} is no number of a shard"
        raise ValueError(message)
    return number


def encode_chunk(chunk: Chunk) -> str:
    """Return a chunk as a line of the journal that an export keeps while it is written."""
    return json.dumps(chunk.fields(), separators=(",", ":"))


def decode_chunk(line: str) -> Chunk:
    """Return what `encode_chunk` was given."""
    return Chunk.of(json.loads(line))


def with_chunks(manifest: Manifest, chunks: tuple[Chunk, ...]) -> Manifest:
    """Return a manifest with chunks."""
    return replace(manifest, chunks=chunks)
