"""A stream's files as they are read: any process may, beside any writer; nothing is changed."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Final, Self

from storage_core.catalog.archived_shard import shard_name
from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin, is_stream_name
from storage_core.catalog.root_file import STREAM_FILE, check_root, list_streams, read_root
from storage_core.catalog.stream_meta import (
    OPTIONS_FILE,
    StreamMeta,
    StreamSettings,
    read_meta,
    read_settings,
)
from storage_core.engine.commit_marker import MARKER_FILE
from storage_core.engine.left_config import has_store
from storage_core.errors import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
)
from storage_core.platform.durable_file import reading_errors
from storage_core.platform.name_suggestions import did_you_mean, listed_names

STAGING_DIRECTORY: Final = "staging"
_NAMES_TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """A stream's place and what its files say; of an archived log, what they said of it.

    `shards_open` are those whose logs must be the same when the files are read again; None for all.
    """

    directory: Path
    meta: StreamMeta
    settings: StreamSettings
    is_archived: bool = False
    shards_open: frozenset[int] | None = None

    def shard_directory(self, shard: int) -> Path:
        """Return where a shard lives."""
        name = self.settings.directories.get(shard)
        return shard_directory(self.directory, shard) if name is None else self.directory / name

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

    def reread(self) -> Self:
        """Return what holds once the files are read again.

        Raises:
            ForeignDataError: Another stream, or a shard's other log, is in the place of this one.
            CorruptionError: A file is damaged or missing.
        """
        try:
            meta = read_meta(self.directory)
        except FileNotFoundError as error:
            message = "the stream was dropped or moved while it was open here"
            path = self.directory / STREAM_FILE
            raise CorruptionError(message, stream=self.meta.name, path=path) from error
        if meta.incarnation != self.meta.incarnation:
            message = "the stream was made anew while it was open here; open it again"
            raise ForeignDataError(message, stream=self.meta.name, path=self.directory)
        if self.is_archived:
            return self
        settings = read_settings(self.directory, meta)
        for shard, lineage in self.settings.lineages.items():
            is_open = self.shards_open is None or shard in self.shards_open
            if is_open and settings.lineages.get(shard) != lineage:
                message = replaced_message(settings, lineage)
                path = self.directory / OPTIONS_FILE
                raise ForeignDataError(message, stream=meta.name, shard=shard, path=path)
        return replace(self, settings=settings)

    def refuse_if_replaced(self, shard: int) -> None:
        """Raise if a shard's log, which is not in its place any more, was replaced.

        Raises:
            ForeignDataError: Another log is in its place, or it is an archived one that has left.
        """
        if self.is_archived and _has_left(self.shard_directory(shard)):
            message = "the archived log was moved or removed while it was open here; open it again"
            raise ForeignDataError(message, stream=self.meta.name, shard=shard)
        try:
            settings = read_settings(self.directory, self.meta)
        except (ShardlogError, OSError):
            return
        lineage = self.settings.lineages[shard]
        if settings.lineages.get(shard, lineage) != lineage and not self.is_archived:
            message = replaced_message(settings, lineage)
            raise ForeignDataError(message, stream=self.meta.name, shard=shard)

    def settings_stamp(self) -> tuple[int, ...] | None:
        """Return what differs once options.json was replaced; None if it is gone."""
        try:
            status = (self.directory / OPTIONS_FILE).stat()
        except FileNotFoundError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)


def replaced_message(settings: StreamSettings, lineage: bytes) -> str:
    """Say what became of a shard's log that is not in its place any more."""
    if any(one.lineage == lineage.hex() for one in settings.archived):
        return (
            "the shard was reset, or began from the lake, while it was open here: its log is "
            "archived; open it again"
        )
    return "the shard's log was replaced by another while it was open here"


def shard_directory(stream_directory: Path, shard: int) -> Path:
    """Return where a shard lives that never replaced another."""
    return stream_directory / shard_name(shard)


def check_name(name: object) -> None:
    """Refuse a name that is not in Kafka's alphabet."""
    if not is_stream_name(name):
        quoted = repr(name if len(repr(name)) <= 80 else str(name)[:60] + "…")  # noqa: PLR2004 - a line
        message = (
            f"bad stream name {quoted}: use 1 to 249 letters, digits, dots, dashes, underscores"
        )
        raise InvalidRequestError(message)


def read_stream(
    root: Path, name: str, *, is_whole: bool = True, shards_open: Iterable[int] | None = None
) -> StreamFiles:
    """Read a stream's files; creates nothing.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        is_whole: Whether all its shards have to be there; who opens some of them looks at those.
        shards_open: Those whose logs must be the same when the files are read again; None for all.

    Raises:
        InvalidRequestError: There is no such root or stream.
        UnsupportedFormatError: Another version of shardlog wrote it.
        CorruptionError: A file is damaged or missing.
        ForeignDataError: The files are of two streams.
    """
    check_name(name)
    check_root(root)
    with reading_errors(root / name, "reading the stream's files"):
        files = _read_files(root, name)
        while is_whole and (missing := _missing_shard(files)) is not None:
            listed, files = files, _read_files(root, name)
            # Else it was reset between both looks, and lies elsewhere.
            if files.shard_directory(missing) == listed.shard_directory(missing):
                raise _missing(files, missing)
    return files if shards_open is None else replace(files, shards_open=frozenset(shards_open))


def _read_files(root: Path, name: str) -> StreamFiles:
    directory = root / name
    try:
        read_root(root)
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message, stream=name, path=root) from error
    try:
        meta = read_meta(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        # Without a store it is a creation under way, or one that did not finish.
        if any(map(has_store, directory.glob("shard-*"))):
            message = "stream.json is missing though there are shards; restore it from a backup"
            raise CorruptionError(message, stream=name, path=directory / STREAM_FILE) from error
        raise InvalidRequestError(_not_there(root, name), stream=name, path=root) from error
    return StreamFiles(directory, meta, read_settings(directory, meta))


def _not_there(root: Path, name: str) -> str:
    """Return what to say of a stream that is not there: which is like it, and which there are."""
    names: list[str] = []
    with suppress(ShardlogError):
        names = list_streams(root)
    text = "there is no such stream" + did_you_mean([name], names)
    return f"{text}; there are {listed_names(names, _NAMES_TOLD)}" if names else text


def _has_left(log: Path) -> bool:
    """Tell whether no log is there; a reader may have left a directory where one was moved away."""
    try:
        return not (log / MARKER_FILE).exists() and not has_store(log)
    except OSError:
        return False


def _missing_shard(files: StreamFiles) -> int | None:
    """Return a shard whose directory is not there, None where all are."""
    lineages = files.settings.lineages
    return next((n for n in lineages if not files.shard_directory(n).is_dir()), None)


def refuse_missing(files: StreamFiles, shard: int) -> None:
    """Refuse a shard whose directory is not there.

    Raises:
        CorruptionError: It is not.
    """
    if not files.shard_directory(shard).is_dir():
        raise _missing(files, shard)


def _missing(files: StreamFiles, shard: int) -> CorruptionError:
    message, path = "the shard's directory is missing", files.shard_directory(shard)
    return CorruptionError(message, stream=files.meta.name, shard=shard, path=path)


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """What a stream's own files say of it, whatever state its shards are in.

    Attributes:
        name: The stream's name.
        incarnation: The random id made with the stream, in hex.
        origin: What the stream is a copy of; None if its rows come from callers.
        options: The options that hold.
        shards: The shards there are, whether they can be opened or not, sorted.
        directories: Where each of them lies.
        lineages: The lineage of each, in hex.
        births: The first address that each can ever have.
    """

    name: str
    incarnation: str
    origin: StreamOrigin | None
    options: StreamOptions
    shards: tuple[int, ...]
    directories: Mapping[int, Path]
    lineages: Mapping[int, str]
    births: Mapping[int, int]


def describe_stream(root: str | PathLike[str], name: str) -> StreamDescription:
    """Return what a stream's files say of it; no shard is opened, however many there are.

    Raises:
        InvalidRequestError: There is no such stream.
        UnsupportedFormatError: It needs another version of shardlog.
        CorruptionError: Its files are damaged.
    """
    files = read_stream(Path(root), name, is_whole=False)
    return StreamDescription(
        name,
        files.meta.incarnation,
        files.meta.origin,
        files.settings.options,
        tuple(sorted(files.settings.lineages)),
        {shard: files.shard_directory(shard) for shard in files.settings.lineages},
        {shard: lineage.hex() for shard, lineage in files.settings.lineages.items()},
        {shard: files.settings.births.get(shard, 0) for shard in files.settings.lineages},
    )
