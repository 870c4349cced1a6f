"""The files that say what a stream is: root.json, stream.json, options.json.

    <root>/root.json                 the root's own random id
    <root>/<stream>/stream.json      what never changes; published once by link(2), last of all
    <root>/<stream>/options.json     what may change, and every shard ever made with its
                                     lineage; replaced under flock of the stream's directory
    <root>/<stream>/shard-0000/      one shard

A stream exists once its stream.json does. A shard is listed after its directory and marker
are durable, so a listed shard without a directory is damage.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from storage_core.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    sync_directory,
    write_once,
)
from storage_core.errors import CorruptionError, InvalidRequestError, UnsupportedFormatError
from storage_core.marker import MARKER_FILE, create_marker
from storage_core.options import StreamOptions
from storage_core.windows import Unit, WindowScheme, WindowWidth

FORMAT_VERSION: Final = 1
FEATURES: Final[frozenset[str]] = frozenset()
LINEAGE_BYTES: Final = 16

_ROOT_FILE: Final = "root.json"
_STREAM_FILE: Final = "stream.json"
_OPTIONS_FILE: Final = "options.json"
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_SPANS: Final = ("retention", "sync_interval", "wait_max")


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """What is fixed when a stream is made."""

    name: str
    incarnation: str
    unit: Unit
    window: WindowWidth
    jitter: int
    shards: int

    @property
    def scheme(self) -> WindowScheme:
        """How primaries fall into windows."""
        return WindowScheme(self.unit, self.window)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What may change, and the shards there are."""

    options: StreamOptions
    lineages: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """A stream's place and what its files say."""

    directory: Path
    meta: StreamMeta
    settings: StreamSettings

    def shard_directory(self, shard: int) -> Path:
        """Return where a shard lives."""
        return shard_directory(self.directory, shard)

    @property
    def staging_directory(self) -> Path:
        """Where unfinished transactions live."""
        return self.directory / "staging"

    def altered(self, changes: dict[str, object]) -> Self:
        """Change options on disk and return what then holds."""
        fixed = {"shards", "unit", "jitter", "window"}
        names = {field.name for field in fields(StreamOptions)} - fixed
        unknown = sorted(set(changes) - names)
        if unknown:
            message = f"cannot alter {', '.join(unknown)}; what may change: {sorted(names)}"
            raise InvalidRequestError(message, stream=self.meta.name)
        with file_errors(self.directory, "changing options"), _locked(self.directory):
            current = _read_settings(self.directory, self.meta)
            options = replace(current.options, **changes)  # type: ignore[arg-type]  # __post_init__ checks the values
            options.check_retention(self.meta.scheme)
            settings = replace(current, options=options)
            replace_durably(self.directory / _OPTIONS_FILE, _encode_settings(settings))
        return replace(self, settings=settings)


def shard_directory(stream_directory: Path, shard: int) -> Path:
    """Return where a shard lives."""
    return stream_directory / f"shard-{shard:04d}"


def check_name(name: object) -> None:
    """Refuse a name that is not in Kafka's alphabet."""
    if not isinstance(name, str) or not _NAME.match(name) or name in (".", ".."):
        shown = repr(name if len(repr(name)) <= 80 else str(name)[:60] + "…")  # noqa: PLR2004 - a line
        message = (
            f"bad stream name {shown}: use 1 to 249 letters, digits, dots, dashes, underscores"
        )
        raise InvalidRequestError(message)


def check_root(root: Path) -> None:
    """Refuse a path that no file system can hold."""
    if "\0" in str(root):
        message = f"bad root {str(root)!r}: a path holds no NUL"
        raise InvalidRequestError(message)


def create_stream(root: Path, name: str, options: StreamOptions) -> StreamFiles:
    """Make a stream's files; durable on return.

    Raises:
        InvalidRequestError: The name is bad or taken, or the root is not a directory.
        CorruptionError: Shards with data lie there, but no stream.json.
    """
    check_name(name)
    check_root(root)
    directory = root / name
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            message = "not a directory"
            raise InvalidRequestError(message, stream=name, path=path)
    with file_errors(directory, "creating the stream"):
        make_directories(directory)
        if not (root / _ROOT_FILE).exists():
            write_once(root / _ROOT_FILE, _encode_root())
        with _locked(directory):
            return _create_files(directory, name, options)


def _create_files(directory: Path, name: str, options: StreamOptions) -> StreamFiles:
    if (directory / _STREAM_FILE).exists():
        message = "the stream exists; open it"
        raise InvalidRequestError(message, stream=name)
    _remove_unborn_shards(directory, name)
    lineages = {
        shard: _create_shard(shard_directory(directory, shard)) for shard in range(options.shards)
    }
    meta = StreamMeta(
        name,
        secrets.token_hex(16),
        options.unit,
        options.scheme.width,
        options.jitter,
        options.shards,
    )
    settings = StreamSettings(options, lineages)
    replace_durably(directory / _OPTIONS_FILE, _encode_settings(settings))
    # An earlier creation that did not finish may have made these directories.
    for above in (directory.parent, directory.parent.parent):
        sync_directory(above)
    write_once(directory / _STREAM_FILE, _encode_meta(meta))
    return StreamFiles(directory, meta, settings)


def read_stream(root: Path, name: str) -> StreamFiles:
    """Read a stream's files; creates nothing.

    Raises:
        InvalidRequestError: There is no such root or stream.
        UnsupportedFormatError: It was written by a newer shardlog.
        CorruptionError: A file is damaged or missing.
    """
    check_name(name)
    check_root(root)
    with file_errors(root / name, "reading the stream's files"):
        return _read_files(root, name)


def _read_files(root: Path, name: str) -> StreamFiles:
    directory = root / name
    try:
        version = read_document(root / _ROOT_FILE).get("format_version")
    except (FileNotFoundError, NotADirectoryError) as error:
        message = "not a shardlog root: it has no root.json"
        raise InvalidRequestError(message, stream=name, path=root) from error
    if version != FORMAT_VERSION:
        message = f"root format version {version}; this shardlog reads {FORMAT_VERSION}"
        raise UnsupportedFormatError(message, path=root / _ROOT_FILE)
    try:
        meta = _read_meta(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        if shard_directory(directory, 0).exists():
            message = "stream.json is missing though there are shards; restore it from a backup"
            raise CorruptionError(message, stream=name, path=directory / _STREAM_FILE) from error
        message = "there is no such stream"
        raise InvalidRequestError(message, stream=name, path=root) from error
    settings = _read_settings(directory, meta)
    for shard in settings.lineages:
        if not shard_directory(directory, shard).is_dir():
            message = "the shard's directory is missing"
            path = shard_directory(directory, shard)
            raise CorruptionError(message, stream=name, shard=shard, path=path)
    return StreamFiles(directory, meta, settings)


def _create_shard(directory: Path) -> bytes:
    lineage = secrets.token_bytes(LINEAGE_BYTES)
    directory.mkdir()
    create_marker(directory / MARKER_FILE, 0, lineage)
    sync_directory(directory)
    sync_directory(directory.parent)
    return lineage


def _remove_unborn_shards(directory: Path, name: str) -> None:
    """Clear what a creation that did not finish has left; such shards have no store."""
    for shard in sorted(directory.glob("shard-*")):
        if (shard / "db").exists():
            message = "shards with data but no stream.json; restore it or remove the directory"
            raise CorruptionError(message, stream=name, path=shard)
        shutil.rmtree(shard)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _encode_root() -> bytes:
    return encode_document({"format_version": FORMAT_VERSION, "root_id": secrets.token_hex(16)})


def _encode_meta(meta: StreamMeta) -> bytes:
    return encode_document(
        {
            **asdict(meta),
            "format_version": FORMAT_VERSION,
            "required_to_read": sorted(FEATURES),
            "required_to_write": sorted(FEATURES),
            "kind": "stream",
            "routing": {"by": "secondary", "hash": "low bits"},
            "key_mode": None,
            "topic_id": None,
        }
    )


def _read_meta(directory: Path) -> StreamMeta:
    path = directory / _STREAM_FILE
    document: dict[str, Any] = read_document(path)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        message = f"format version {version}; this shardlog reads {FORMAT_VERSION}"
        raise UnsupportedFormatError(message, stream=directory.name, path=path)
    needed = [*document.get("required_to_read", ()), *document.get("required_to_write", ())]
    missing = sorted(set(needed) - FEATURES)
    if missing:
        message = f"the stream needs features this shardlog lacks: {', '.join(missing)}"
        raise UnsupportedFormatError(message, stream=directory.name, path=path)
    if document["name"] != directory.name:
        message = f"stream.json names another stream, {document['name']!r}"
        raise CorruptionError(message, stream=directory.name, path=path)
    return StreamMeta(**{field.name: document[field.name] for field in fields(StreamMeta)})


def _encode_settings(settings: StreamSettings) -> bytes:
    options: dict[str, Any] = asdict(settings.options)
    for name in _SPANS:
        span = options[name]
        options[name] = None if span is None else span.total_seconds()
    lineages = {str(shard): lineage.hex() for shard, lineage in settings.lineages.items()}
    return encode_document(
        {"format_version": FORMAT_VERSION, "options": options, "shards": lineages}
    )


def _read_settings(directory: Path, meta: StreamMeta) -> StreamSettings:
    path = directory / _OPTIONS_FILE
    try:
        document: dict[str, Any] = read_document(path)
    except FileNotFoundError as error:
        message = "the file is missing; restore it from a backup"
        raise CorruptionError(message, stream=meta.name, path=path) from error
    options = document["options"]
    known = {field.name for field in fields(StreamOptions)}
    unknown = sorted(set(options) - known)
    if document["format_version"] != FORMAT_VERSION or unknown:
        message = f"written by a newer shardlog: {unknown or document['format_version']}"
        raise UnsupportedFormatError(message, stream=meta.name, path=path)
    for name in _SPANS:
        if options[name] is not None:
            options[name] = timedelta(seconds=options[name])
    lineages = {int(shard): bytes.fromhex(text) for shard, text in document["shards"].items()}
    return StreamSettings(StreamOptions(**options), lineages)
