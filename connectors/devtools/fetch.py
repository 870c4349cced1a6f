"""The jars on this machine: fetched once, checked on every use, fetched again when damaged.

They come by the Apache Ivy inside PySpark's wheel (PySpark itself is not imported), which asks
Maven Central unless $SHARDLOG_IVY_SETTINGS names an Ivy settings file, for those who have a mirror.

A bundle is gathered in a directory of its own beside its place, held to the checksum that stands
in the source, and renamed into its place. Of several processes that need it at once one fetches,
under a lock, and the others wait.
"""

import hashlib
import importlib.util
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from connectors.devtools.java import find_java
from connectors.devtools.places import jars_directory
from connectors.devtools.process import Process, await_end, last_telling_line, start_guarded
from storage_core import (
    CorruptionError,
    DirectoryLock,
    InvalidRequestError,
    SystemClock,
    UnavailableError,
)

_FETCH_MAX_S: Final = 900.0
# A server of jars, or the network, is away for a moment now and then.
_TRIES_MAX: Final = 3
_TRY_AGAIN_AFTER_S: Final = 2.0
# Whoever holds a lock may be fetching.
_LOCK_MAX_S: Final = 2 * _FETCH_MAX_S
_PARTIAL: Final = ".partial"
_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"
# A "bundle" is a jar too; a zip is unpacked.
_TYPES: Final = ("jar", "bundle", "zip")
_LINES: Final = 4
_BYTES_A_MEGABYTE: Final = 1_000_000
_IVY_FILE: Final = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="shardlog" module="dev-stack"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts that are fetched and kept together.

    Attributes:
        name: Name and version; the directory they are kept in.
        dependencies: The `dependency` elements of an Ivy file.
        files: How many files that makes.
        megabytes: How much is fetched, roughly; for the progress bar.
        sha256: The checksum of all its jars (`jars_sha256`).
    """

    name: str
    dependencies: str
    files: int
    megabytes: int
    sha256: str


def jars_sha256(directory: Path) -> str:
    """Return one checksum, in hex, of the names and contents of all jars below a directory.

    It is that of what `sha256sum` prints of them in the order of their names.
    """
    lines = []
    for name in sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*.jar")):
        with (directory / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def ivy_jar() -> Path:
    """Return Ivy's jar in PySpark's wheel, or say that it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        for jar in sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")):
            return jar
    message = "pyspark, whose Ivy fetches the broker, is missing: pip install 'shardlog[spark]'"
    raise InvalidRequestError(message)


def retrieve(bundle: Bundle, directory: Path, on_tick: Callable[[], None]) -> Path:
    """Fetch a bundle's artifacts into a directory of their own below an empty one; return it.

    `on_tick` is called a few times a second while it takes.
    """
    ivy_file, retrieved, log = directory / "ivy.xml", directory / "found", directory / "ivy.log"
    ivy_file.write_text(_IVY_FILE.format(dependencies=bundle.dependencies), encoding="utf-8")
    settings = os.environ.get("SHARDLOG_IVY_SETTINGS")
    command = [
        *(str(find_java()), "-Xmx256m", "-XX:+UseSerialGC"),
        *("-cp", str(ivy_jar()), "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(directory / "cache"), "-ivy", str(ivy_file), "-confs", "default"),
        *("-retrieve", str(retrieved / _PATTERN), "-types", *_TYPES),
    ]
    for tries_left in reversed(range(_TRIES_MAX)):
        # What came is in its cache, and is not asked for again.
        ivy = start_guarded(command, log=log, scratch=directory, owner=Process.current())
        await_end(ivy.program, log, _FETCH_MAX_S, on_tick)
        files = len(list(retrieved.glob("*")))
        if files == bundle.files:
            break
        if not tries_left:
            reason = last_telling_line(log)
            message = f"fetched {files} of {bundle.files} files of {bundle.name}: {reason}"
            raise UnavailableError(message)
        SystemClock().sleep(_TRY_AGAIN_AFTER_S)
    return retrieved


Retrieve = Callable[[Bundle, Path, Callable[[], None]], Path]


def fetched(bundle: Bundle, cache: Path | None = None, retrieve: Retrieve = retrieve) -> Path:
    """Return the directory that holds a bundle, fetching it if it is missing or damaged.

    Args:
        bundle: What is needed.
        cache: Where bundles are kept; the user's cache by default.
        retrieve: How it is fetched.

    Raises:
        UnavailableError: It could not be fetched, or another process takes too long.
        CorruptionError: What was fetched is not what the source names.
        InvalidRequestError: PySpark or a JVM is missing.
    """
    cache = jars_directory() if cache is None else cache
    place = cache / bundle.name
    if _is_whole(bundle, place):
        return place
    try:
        with locked(cache, f"fetching {bundle.name}"):
            if not _is_whole(bundle, place):
                _fetch(bundle, place, retrieve)
    except OSError as error:
        message = f"cannot keep {bundle.name}: {error.strerror or error}"
        raise UnavailableError(message, path=cache) from error
    return place


def download_line(bundles: Sequence[Bundle], cache: Path | None = None) -> str:
    """Return one line that says how much is to be downloaded, and what is cached already."""
    cache = jars_directory() if cache is None else cache
    sizes = {f"{bundle.name} ({bundle.megabytes} MB)": bundle for bundle in bundles}
    cached = [size for size, bundle in sizes.items() if (cache / bundle.name).is_dir()]
    missing = [size for size in sizes if size not in cached]
    parts = []
    if missing:
        megabytes = sum(sizes[size].megabytes for size in missing)
        parts.append(f"{megabytes} MB to download, once: {', '.join(missing)}")
    if cached:
        parts.append(f"cached in {cache}: {', '.join(cached)}")
    return "; ".join(parts)


def locked(directory: Path, doing: str, wait_s: float = _LOCK_MAX_S) -> DirectoryLock:
    """Lock a directory, made if need be, among processes and threads; wait for whoever has it.

    Raises:
        UnavailableError: Another held it all the time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock.within(directory, SystemClock(), wait_s)
    if lock is None:
        message = f"{doing}: another process has held the lock for {wait_s:.0f} s"
        raise UnavailableError(message, path=directory)
    return lock


def _is_whole(bundle: Bundle, place: Path) -> bool:
    # Another process may be replacing it, and a disk may refuse to read it.
    with suppress(OSError):
        return jars_sha256(place) == bundle.sha256
    return False


def _fetch(bundle: Bundle, place: Path, retrieve: Retrieve) -> None:
    for left in place.parent.glob(f"{bundle.name}.*{_PARTIAL}"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{bundle.name}.", suffix=_PARTIAL, dir=place.parent, ignore_cleanup_errors=True
    ) as name:
        partial = Path(name)
        # Ivy keeps what it fetches in its own cache, and copies it from there.
        with _progress(bundle, partial / "cache") as tick:
            collected = retrieve(bundle, partial, tick)
        for archive in collected.glob("*.zip"):
            # What cannot be unpacked in whole, or is another archive, has another sum.
            with suppress(zipfile.BadZipFile, zlib.error), zipfile.ZipFile(archive) as packed:
                packed.extractall(collected)
            archive.unlink()
        checksum = jars_sha256(collected)
        if checksum != bundle.sha256:
            message = f"{bundle.name} has SHA-256 {checksum}, not {bundle.sha256}: do not run it"
            raise CorruptionError(message)
        if place.exists():
            place.rename(partial / "damaged")
        collected.rename(place)


@contextmanager
def _progress(bundle: Bundle, directory: Path) -> Iterator[Callable[[], None]]:
    """Show how a directory fills, a bar on a terminal, a few plain lines elsewhere."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    is_plain, printed = not console.is_terminal, 0
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(
        *columns, TransferSpeedColumn(), console=console, transient=True, disable=is_plain
    )
    total = bundle.megabytes * _BYTES_A_MEGABYTE
    task = bar.add_task(f"fetching {bundle.name}", total=total)
    if is_plain:
        console.print(f"fetching {bundle.name} ({bundle.megabytes} MB), once")

    def tick() -> None:
        nonlocal printed
        size = disk_bytes(directory)
        bar.update(task, completed=min(total, size))
        step = _LINES * size // total
        if is_plain and printed < step < _LINES:
            printed = step
            console.print(f"  {size / _BYTES_A_MEGABYTE:.0f} of {bundle.megabytes} MB")

    with bar:
        yield tick


def disk_bytes(directory: Path) -> int:
    """Return the size of all files of a directory in which others are at work."""
    total = 0
    with suppress(FileNotFoundError):
        for path in directory.rglob("*"):
            # What is fetched is renamed once it is whole.
            with suppress(FileNotFoundError):
                total += path.stat().st_size
    return total
