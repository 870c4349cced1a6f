"""The files that say what a stream is: root.json, stream.json, options.json.

    <root>/root.json                 the root's own random id
    <root>/<stream>/stream.json      what never changes; published once by link(2), last of all
    <root>/<stream>/options.json     what may change, and every shard ever made with its
                                     lineage and first address; names the stream's incarnation;
                                     replaced under flock of the stream's directory
    <root>/<stream>/shard-0000/      one shard

A stream exists once its stream.json does. A shard is listed after its directory and marker
are durable, so a listed shard without a directory is damage. A plain stream's shards are made
with it; those of a stream with an origin are added later (shard_birth.py).
"""

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin, decode_origin, encode_origin, is_stream_name
from storage_core.catalog.root_file import (
    STREAM_FILE,
    check_root,
    is_reserved,
    make_root_file,
    read_root,
)
from storage_core.errors import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    UnavailableError,
    UnsupportedFormatError,
)
from storage_core.format.window import Unit, WindowScheme, WindowWidth
from storage_core.ground.clock import Clock, SystemClock
from storage_core.ground.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    sync_directory,
    taking_errors,
    write_once,
)
from storage_core.ground.locks import DirectoryLock
from storage_core.store.marker import MARKER_FILE, create_marker

# A stream of an earlier version is read as it is, and made one of this when it is written.
FORMAT_VERSION: Final = 2
_FORMAT_VERSIONS: Final = (1, FORMAT_VERSION)
FEATURES: Final[frozenset[str]] = frozenset()
LINEAGE_BYTES: Final = 16
_LOCK_WAIT_MAX_S: Final = 60.0

STAGING_DIRECTORY: Final = "staging"
_OPTIONS_FILE: Final = "options.json"
_META_FIELDS: Final = ("name", "incarnation", "unit", "window", "jitter", "shards")
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
    origin: StreamOrigin | None = None

    @property
    def route_mask(self) -> int | None:
        """What of a secondary names its shard; None where any shard may hold any id."""
        return self.shards - 1 if self.origin is None else None

    @property
    def scheme(self) -> WindowScheme:
        """How primaries fall into windows."""
        return WindowScheme(self.unit, self.window)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What may change, and the shards there are.

    `births` holds the first address of the shards whose log does not begin at 0.
    `format_version` is the earliest that may have written to it last.
    """

    options: StreamOptions
    lineages: Mapping[int, bytes]
    births: Mapping[int, int] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """A stream's place and what its files say."""

    directory: Path
    meta: StreamMeta
    settings: StreamSettings

    def shard_directory(self, shard: int) -> Path:
        """Return where a shard lives."""
        return shard_directory(self.directory, shard)

    def lineage(self, shard: object) -> bytes:
        """Return the random id of a shard's log.

        Raises:
            InvalidRequestError: There is no such shard.
        """
        lineage = self.settings.lineages.get(shard) if type(shard) is int else None
        if lineage is None:
            message = f"there is no shard {shard!r}; there are {sorted(self.settings.lineages)}"
            raise InvalidRequestError(message, stream=self.meta.name)
        return lineage

    def born(self, shard: int) -> int:
        """Return the first address a shard can ever have."""
        return self.settings.births.get(shard, 0)

    @property
    def staging_directory(self) -> Path:
        """Where unfinished transactions live."""
        return self.directory / STAGING_DIRECTORY

    def altered(self, changes: dict[str, object], clock: Clock) -> Self:
        """Change options on disk and return what then holds."""
        fixed = {"shards", "unit", "jitter", "window"}
        names = {one.name for one in fields(StreamOptions)} - fixed
        unknown = sorted(set(changes) - names)
        if unknown:
            message = f"cannot alter {', '.join(unknown)}; what may change: {sorted(names)}"
            raise InvalidRequestError(message, stream=self.meta.name)
        with taking_errors(self.directory, "changing options"), locked(self.directory, clock):
            current = self.reread().settings
            options = replace(current.options, **changes)  # type: ignore[arg-type]  # __post_init__ checks the values
            options.check_retention(self.meta.scheme)
            return self.rewritten(replace(current, options=options))

    def rewritten(self, settings: StreamSettings) -> Self:
        """Put settings in the place of those on disk; durable on return. Under `locked`."""
        settings = replace(settings, format_version=FORMAT_VERSION)
        replace_durably(self.directory / _OPTIONS_FILE, _encode_settings(settings, self.meta))
        return replace(self, settings=settings)

    def upgraded(self, clock: Clock) -> Self:
        """Make older versions refuse a stream that this one is about to write; durable on return.

        stream.json never changes, so it is options.json that tells them.
        """
        if self.settings.format_version == FORMAT_VERSION:
            return self
        with taking_errors(self.directory, "upgrading the stream"), locked(self.directory, clock):
            return self.rewritten(self.reread().settings)

    def reread(self) -> Self:
        """Return what holds once the files are read again.

        Raises:
            ForeignDataError: Another stream, or a shard's other log, is in the place of this one.
            CorruptionError: A file is damaged or missing.
        """
        try:
            meta = _read_meta(self.directory)
        except FileNotFoundError as error:
            message = "the stream was dropped or moved while it was open here"
            path = self.directory / STREAM_FILE
            raise CorruptionError(message, stream=self.meta.name, path=path) from error
        if meta.incarnation != self.meta.incarnation:
            message = "the stream was made anew while it was open here; open it again"
            raise ForeignDataError(message, stream=self.meta.name, path=self.directory)
        settings = _read_settings(self.directory, meta)
        for shard, lineage in self.settings.lineages.items():
            if settings.lineages.get(shard) != lineage:
                message = "the shard's log was replaced by another while it was open here"
                path = self.directory / _OPTIONS_FILE
                raise ForeignDataError(message, stream=meta.name, shard=shard, path=path)
        return replace(self, settings=settings)

    def settings_stamp(self) -> tuple[int, ...] | None:
        """Return what differs once options.json was replaced; None if it is gone."""
        try:
            found = (self.directory / _OPTIONS_FILE).stat()
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)


def shard_directory(stream_directory: Path, shard: int) -> Path:
    """Return where a shard lives."""
    return stream_directory / f"shard-{shard:04d}"


def check_name(name: object) -> None:
    """Refuse a name that is not in Kafka's alphabet."""
    if not is_stream_name(name):
        shown = repr(name if len(repr(name)) <= 80 else str(name)[:60] + "…")  # noqa: PLR2004 - a line
        message = (
            f"bad stream name {shown}: use 1 to 249 letters, digits, dots, dashes, underscores"
        )
        raise InvalidRequestError(message)


def create_stream(
    root: Path,
    name: str,
    options: StreamOptions,
    origin: StreamOrigin | None = None,
    clock: Clock = SystemClock(),
) -> StreamFiles:
    """Make a stream's files; durable on return. With an origin it has no shards yet.

    Raises:
        InvalidRequestError: The name is bad or taken, or the root is not a directory.
        CorruptionError: Shards with data lie there, but no stream.json.
    """
    check_name(name)
    if is_reserved(name):
        message = f"no stream may be called {name!r}: a root keeps a file of its own there"
        raise InvalidRequestError(message, stream=name)
    check_root(root)
    directory = root / name
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            message = "not a directory"
            raise InvalidRequestError(message, stream=name, path=path)
    with taking_errors(directory, "creating the stream"):
        make_directories(directory)
        make_root_file(root)
        with locked(directory, clock):
            return _create_files(directory, name, options, origin)


def _create_files(
    directory: Path, name: str, options: StreamOptions, origin: StreamOrigin | None
) -> StreamFiles:
    if (directory / STREAM_FILE).exists():
        message = "the stream exists; open it"
        raise InvalidRequestError(message, stream=name)
    for left in sorted(directory.glob("shard-*")):
        remove_unborn_shard(left, name, "no stream.json")
    shards = options.shards if origin is None else 0
    lineages = {shard: make_shard(shard_directory(directory, shard)) for shard in range(shards)}
    meta = StreamMeta(
        name,
        secrets.token_hex(16),
        options.unit,
        options.scheme.width,
        options.jitter,
        shards,
        origin,
    )
    settings = StreamSettings(options, lineages)
    replace_durably(directory / _OPTIONS_FILE, _encode_settings(settings, meta))
    # An earlier creation that did not finish may have made these directories.
    for above in (directory.parent, directory.parent.parent):
        sync_directory(above)
    write_once(directory / STREAM_FILE, _encode_meta(meta))
    return StreamFiles(directory, meta, settings)


def read_stream(root: Path, name: str, *, is_whole: bool = True) -> StreamFiles:
    """Read a stream's files; creates nothing.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        is_whole: Whether all its shards have to be there; who opens some of them looks at those.

    Raises:
        InvalidRequestError: There is no such root or stream.
        UnsupportedFormatError: It was written by a newer shardlog.
        CorruptionError: A file is damaged or missing.
        ForeignDataError: The files are of two streams.
    """
    check_name(name)
    check_root(root)
    with file_errors(root / name, "reading the stream's files"):
        files = _read_files(root, name)
        if is_whole:
            _check_shards(files)
    return files


def _read_files(root: Path, name: str) -> StreamFiles:
    directory = root / name
    try:
        read_root(root)
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message, stream=name, path=root) from error
    try:
        meta = _read_meta(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        # Without a store it is a creation under way, or one that did not finish.
        if any(directory.glob("shard-*/db")):
            message = "stream.json is missing though there are shards; restore it from a backup"
            raise CorruptionError(message, stream=name, path=directory / STREAM_FILE) from error
        message = "there is no such stream"
        raise InvalidRequestError(message, stream=name, path=root) from error
    return StreamFiles(directory, meta, _read_settings(directory, meta))


def _check_shards(files: StreamFiles) -> None:
    for shard in files.settings.lineages:
        path = files.shard_directory(shard)
        if not path.is_dir():
            message = "the shard's directory is missing"
            raise CorruptionError(message, stream=files.meta.name, shard=shard, path=path)


def make_shard(directory: Path, born: int = 0) -> bytes:
    """Make a shard whose log begins at an address; durable on return, listed nowhere yet."""
    lineage = secrets.token_bytes(LINEAGE_BYTES)
    directory.mkdir()
    create_marker(directory / MARKER_FILE, born, lineage)
    sync_directory(directory)
    sync_directory(directory.parent)
    return lineage


def remove_unborn_shard(shard: Path, stream: str, why: str) -> None:
    """Clear what somebody who did not come to list the shard has left; it has no store.

    Raises:
        CorruptionError: It has one.
    """
    if (shard / "db").exists():
        message = f"shards with data but {why}; restore it or remove the directory"
        raise CorruptionError(message, stream=stream, path=shard)
    shutil.rmtree(shard)


def locked(directory: Path, clock: Clock) -> DirectoryLock:
    """Lock what guards a stream's own files; those inside hold it only for a few syncs.

    Raises:
        UnavailableError: Another process, perhaps a frozen one, held it for too long.
    """
    lock = DirectoryLock.within(directory, clock, _LOCK_WAIT_MAX_S)
    if lock is None:
        message = f"waited {_LOCK_WAIT_MAX_S:g} s for another process to let go of the stream"
        raise UnavailableError(message, path=directory)
    return lock


def _encode_meta(meta: StreamMeta) -> bytes:
    by_secondary, by_caller = {"by": "secondary", "hash": "low bits"}, {"by": "partition"}
    return encode_document(
        {
            **{name: getattr(meta, name) for name in _META_FIELDS},
            **encode_origin(meta.origin),
            "format_version": FORMAT_VERSION,
            "required_to_read": sorted(FEATURES),
            "required_to_write": sorted(FEATURES),
            "routing": by_secondary if meta.origin is None else by_caller,
        }
    )


def _read_meta(directory: Path) -> StreamMeta:
    path = directory / STREAM_FILE
    document: dict[str, Any] = read_document(path)
    version = document.get("format_version")
    if version not in _FORMAT_VERSIONS:
        message = f"format version {version}; this shardlog reads up to {FORMAT_VERSION}"
        raise UnsupportedFormatError(message, stream=directory.name, path=path)
    needed = [*document.get("required_to_read", ()), *document.get("required_to_write", ())]
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
    return StreamMeta(**{name: document[name] for name in _META_FIELDS}, origin=origin)


def _encode_settings(settings: StreamSettings, meta: StreamMeta) -> bytes:
    options: dict[str, Any] = asdict(settings.options)
    for name in _SPANS:
        span = options[name]
        options[name] = None if span is None else span.total_seconds()
    lineages = {str(shard): lineage.hex() for shard, lineage in settings.lineages.items()}
    births = {str(shard): born for shard, born in settings.births.items()}
    return encode_document(
        {
            "format_version": settings.format_version,
            "incarnation": meta.incarnation,
            "options": options,
            "shards": lineages,
            **({"births": births} if births else {}),
        }
    )


def _read_settings(directory: Path, meta: StreamMeta) -> StreamSettings:
    path = directory / _OPTIONS_FILE
    try:
        document: dict[str, Any] = read_document(path)
    except FileNotFoundError as error:
        message = "the file is missing; restore it from a backup"
        raise CorruptionError(message, stream=meta.name, path=path) from error
    options = document["options"]
    known = {one.name for one in fields(StreamOptions)}
    unknown = sorted(set(options) - known)
    version = document["format_version"]
    if version not in _FORMAT_VERSIONS or unknown:
        message = f"written by a newer shardlog: {unknown or version}"
        raise UnsupportedFormatError(message, stream=meta.name, path=path)
    for name in _SPANS:
        if options[name] is not None:
            options[name] = timedelta(seconds=options[name])
    lineages = {int(shard): bytes.fromhex(text) for shard, text in document["shards"].items()}
    births = {int(shard): int(born) for shard, born in document.get("births", {}).items()}
    # Older files do not name their stream; the shards they list must be its own all the same.
    is_ours = document.get("incarnation", meta.incarnation) == meta.incarnation
    if not is_ours or (meta.origin is None and set(lineages) != set(range(meta.shards))):
        message = (
            "stream.json and options.json are of two streams, perhaps one is an older copy; "
            "restore both from one moment"
        )
        raise ForeignDataError(message, stream=meta.name, path=path)
    return StreamSettings(StreamOptions(**options), lineages, births, version)
