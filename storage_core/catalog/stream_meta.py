"""What a stream is, as values, and the two files that say so.

    <root>/root.json                 the root's own random id (root_file.py)
    <root>/<stream>/stream.json      what never changes; published once by link(2), last of all
    <root>/<stream>/options.json     what may change, and every shard ever made with its
                                     lineage and first address; names the stream's incarnation;
                                     replaced under the lock of the stream's directory
    <root>/<stream>/shard-0000/      one shard; `shard-0000~<lineage>` where its log was replaced
                                     (archived_shards.py), so that no path ever names two logs

A stream exists once its stream.json does. A shard is listed after its directory and marker
are durable, so a listed shard without a directory is damage. A plain stream's shards are made
with it; those of a stream with an origin are added later (births.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from storage_core.catalog.archived_shard import (
    ArchivedShard,
    decode_archived,
    decode_directories,
)
from storage_core.catalog.document_format import check_format, format_field
from storage_core.catalog.index_options import (
    decode_index_options,
    encode_index_options,
    unknown_index_options,
)
from storage_core.catalog.options import KeyMode, StreamOptions
from storage_core.catalog.origin import StreamOrigin, decode_origin, encode_origin
from storage_core.catalog.root_file import STREAM_FILE
from storage_core.errors import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    UnsupportedFormatError,
)
from storage_core.format.window import Unit, WindowScheme, WindowWidth
from storage_core.platform.durable_file import encode_document, read_document

KEY_DICTIONARY: Final = "key_dictionary"
SCHEMA_DICTIONARY: Final = "schema_dictionary"
AVRO_VALUES: Final = "avro_values"
JSON_VALUES: Final = "json_values"
ARCHIVED_SHARDS: Final = "archived_shards"
FEATURES: Final = frozenset(
    {KEY_DICTIONARY, SCHEMA_DICTIONARY, AVRO_VALUES, JSON_VALUES, ARCHIVED_SHARDS}
)

OPTIONS_FILE: Final = "options.json"
_META_FIELDS: Final = ("name", "incarnation", "unit", "window", "jitter", "shards")
_FEATURES_FIELD: Final = "features"
_SPANS: Final = (
    *("retention", "sync_interval", "wait_max"),
    *("seal_after", "keep_hot", "keep_replaced", "lake_lag", "lake_history", "keep_local"),
)
# Options written only where they are not the default: programs of before refuse those they do not
# know, and need not where a stream is not published.
_IF_CHOSEN: Final = ("lake", "lake_lag", "lake_history", "keep_local")


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """What is fixed when a stream is made."""

    name: str
    incarnation: str
    unit: Unit
    window: WindowWidth
    jitter: int
    shards: int
    origin: StreamOrigin | None = None
    key_mode: KeyMode = "none"

    @property
    def has_keys(self) -> bool:
        """Tell whether rows belong to keys, and secondaries are numbers of a shard's own."""
        return self.key_mode == "dictionary"

    @property
    def shard_mask(self) -> int | None:
        """What of a row's secondary, or of its key's hash, names its shard; None of an origin's."""
        return self.shards - 1 if self.origin is None else None

    @property
    def route_mask(self) -> int | None:
        """What of a secondary names its shard; None where any shard may hold any number."""
        return None if self.has_keys else self.shard_mask

    @property
    def features(self) -> tuple[str, ...]:
        """What a program must know beside the format version to read or write the stream."""
        of_format = {"avro": (AVRO_VALUES,), "json": (JSON_VALUES,), "raw": ()}
        value_format = "raw" if self.origin is None else self.origin.value_format
        return (KEY_DICTIONARY,) * self.has_keys + of_format[value_format]

    @property
    def scheme(self) -> WindowScheme:
        """How primaries fall into windows."""
        return WindowScheme(self.unit, self.window)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What may change, and the shards there are.

    `births` holds the first address of the shards whose log does not begin at 0. `features` came to
    be needed since the stream was made. `archived` holds the logs that were replaced, oldest first,
    and `directories` where a shard lies that has replaced one.
    """

    options: StreamOptions
    lineages: Mapping[int, bytes]
    births: Mapping[int, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    archived: tuple[ArchivedShard, ...] = ()
    directories: Mapping[int, str] = field(default_factory=dict)


def encode_meta(meta: StreamMeta) -> bytes:
    """Return the bytes of stream.json."""
    routing = {"by": "secondary", "hash": "low bits"}
    if meta.has_keys:
        routing = {"by": "key", "hash": "low bits of xxh3-64"}
    if meta.origin is not None:
        routing = {"by": "partition"}
    return encode_document(
        {
            **format_field("stream"),
            **{name: getattr(meta, name) for name in _META_FIELDS},
            **encode_origin(meta.origin),
            # An origin has more modes of its own.
            **({"key_mode": meta.key_mode} if meta.has_keys else {}),
            "required_to_read": list(meta.features),
            "required_to_write": list(meta.features),
            "routing": routing,
        }
    )


def read_meta(directory: Path) -> StreamMeta:
    """Return what stream.json says.

    Raises:
        FileNotFoundError: There is none.
        UnsupportedFormatError: Another version of shardlog made the stream.
        CorruptionError: It is damaged, or of a stream of another name.
    """
    path = directory / STREAM_FILE
    document: dict[str, Any] = read_document(path)
    check_format(document, "stream", path, directory.name)
    needed = [*document["required_to_read"], *document["required_to_write"]]
    missing = sorted(set(needed) - FEATURES)
    if missing:
        message = f"the stream needs features this shardlog lacks: {', '.join(missing)}"
        raise UnsupportedFormatError(message, stream=directory.name, path=path)
    if document["name"] != directory.name:
        message = f"stream.json names another stream, {document['name']!r}"
        raise CorruptionError(message, stream=directory.name, path=path)
    try:
        origin = decode_origin(document)
    except InvalidRequestError as error:
        message = f"this shardlog does not know such streams: {error.message}"
        raise UnsupportedFormatError(message, stream=directory.name, path=path) from error
    return StreamMeta(
        **{name: document[name] for name in _META_FIELDS},
        origin=origin,
        key_mode="dictionary" if document.get("key_mode") == "dictionary" else "none",
    )


def encode_settings(settings: StreamSettings, meta: StreamMeta) -> bytes:
    """Return the bytes of options.json."""
    options = encode_options(settings.options)
    if settings.features:
        # Among the options: programs that do not know this refuse an option they do not know.
        options[_FEATURES_FIELD] = sorted(settings.features)
    lineages = {str(shard): lineage.hex() for shard, lineage in settings.lineages.items()}
    births = {str(shard): born for shard, born in settings.births.items()}
    return encode_document(
        {
            **format_field("options"),
            "incarnation": meta.incarnation,
            "options": options,
            "shards": lineages,
            **({"births": births} if births else {}),
            **_encode_archived(settings),
        }
    )


def _encode_archived(settings: StreamSettings) -> dict[str, object]:
    if not settings.archived:
        return {}
    directories = {str(shard): name for shard, name in settings.directories.items()}
    return {"archived": [asdict(one) for one in settings.archived], "directories": directories}


def encode_options(options: StreamOptions) -> dict[str, Any]:
    """Return options as JSON has them."""
    fields_of: dict[str, Any] = asdict(options)
    for name in _SPANS:
        span = fields_of[name]
        fields_of[name] = None if span is None else span.total_seconds()
    fields_of["index"] = encode_index_options(options.index)
    for option in fields(options):
        if option.name in _IF_CHOSEN and getattr(options, option.name) == option.default:
            del fields_of[option.name]
    return fields_of


def unknown_options(options: Mapping[str, Any]) -> list[str]:
    """Return the names of options that this shardlog does not have."""
    option_names = {one.name for one in fields(StreamOptions)}
    return sorted(set(options) - option_names) + unknown_index_options(options.get("index", {}))


def decode_known_options(options: Mapping[str, Any]) -> StreamOptions:
    """Return what `encode_options` of another version was given, without what is unknown here."""
    names = {one.name for one in fields(StreamOptions)}
    decodable = {name: value for name, value in options.items() if name in names}
    if "index" in decodable:
        index = dict(decodable["index"])
        for name in unknown_index_options(index):
            del index[name]
        decodable["index"] = index
    return decode_options(decodable)


def decode_options(options: Mapping[str, Any]) -> StreamOptions:
    """Return what `encode_options` was given, none of it unknown."""
    decoded = dict(options)
    for name in _SPANS:
        if decoded.get(name) is not None:
            decoded[name] = timedelta(seconds=decoded[name])
    if "index" in decoded:
        decoded["index"] = decode_index_options(decoded["index"])
    return StreamOptions(**decoded)


def read_settings(directory: Path, meta: StreamMeta) -> StreamSettings:
    """Return what options.json says.

    Raises:
        UnsupportedFormatError: Another version of shardlog wrote it.
        ForeignDataError: It is of another stream.
        CorruptionError: It is damaged or missing.
    """
    path = directory / OPTIONS_FILE
    try:
        document: dict[str, Any] = read_document(path)
    except FileNotFoundError as error:
        message = "the file is missing; restore it from a backup"
        raise CorruptionError(message, stream=meta.name, path=path) from error
    check_format(document, "options", path, meta.name)
    try:
        return _decode_settings(document, meta, path)
    except ShardlogError:
        # Some are ValueErrors too.
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        message = f"not what shardlog writes: {error}; restore the file from a backup"
        raise CorruptionError(message, stream=meta.name, path=path) from error


def _decode_settings(document: dict[str, Any], meta: StreamMeta, path: Path) -> StreamSettings:
    options = document["options"]
    features = frozenset(options.pop(_FEATURES_FIELD, ()))
    if features - FEATURES:
        missing = ", ".join(sorted(features - FEATURES))
        message = f"the stream needs features this shardlog lacks: {missing}"
        raise UnsupportedFormatError(message, stream=meta.name, path=path)
    unknown = unknown_options(options)
    if unknown:
        message = f"options that this shardlog does not have: {', '.join(unknown)}"
        raise UnsupportedFormatError(message, stream=meta.name, path=path)
    lineages = {int(shard): bytes.fromhex(text) for shard, text in document["shards"].items()}
    births = {int(shard): int(born) for shard, born in document.get("births", {}).items()}
    is_ours = document["incarnation"] == meta.incarnation
    if not is_ours or (meta.origin is None and set(lineages) != set(range(meta.shards))):
        message = (
            "stream.json and options.json are of two streams, perhaps one is an older copy; "
            "restore both from one moment"
        )
        raise ForeignDataError(message, stream=meta.name, path=path)
    archived = decode_archived(document.get("archived", ()), lineages.values())
    directories = decode_directories(document.get("directories", {}), lineages)
    return StreamSettings(
        decode_options(options), lineages, births, features, archived, directories
    )
