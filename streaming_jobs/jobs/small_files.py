"""Small files of a directory joined into larger ones, in one step for whoever reads.

A file's tier is the power of eight that its size is near. Once a tier of a partition has eight
files they become one of the next; so each row is written again once a tier, and no file that has
reached the size wanted is touched. Only files of one schema are joined.

Readers must never see a row twice, nor miss one: the new partition is made beside the old one, of
hard links and the joined file, and the two directories are exchanged in one step, which Linux has
and most local file systems do. Where they do not, files stay as they are, with a warning.
So they are where the disk has no room for a copy, or a file cannot be read: the rows have landed by
then, and that there are many small files is no reason to land no more.
A reader that has listed the old files and opens them later finds them gone, as with any directory
of Parquet that is rewritten; it lists again. One that was listing meanwhile goes on in the old
directory, so that lies whole under `_landing` for a minute: emptied at once, it would have shown a
part of its files, and rows would be missing in silence.
"""

import ctypes
import errno
import logging
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from storage_core import Clock, SystemClock
from storage_core.platform.durable_file import make_directories, sync_directory
from streaming_jobs.jobs.landing import OWN

SIZE_WANTED: Final = 128 * 2**20
_LOG: Final = logging.getLogger("shardlog")
_JOINED: Final = "joined"
_KEPT_NS: Final = 60 * 10**9
_CLOCK: Final = SystemClock()
_FILES: Final = 8
_TIER_BITS: Final = 3
_GROUP_ROWS: Final = 2**20
_TOLD_MAX: Final = 1000
_AT_CWD: Final = -100
_EXCHANGE: Final = 2
# What a kernel or a file system without the exchange answers.
_NOT_HERE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
_untyped: Any = pq


def join_small(
    into: Path, folders: Iterable[Path], size_wanted: int = SIZE_WANTED, clock: Clock = _CLOCK
) -> int:
    """Join small files of some partitions, where it can be done; return how many became fewer."""
    delete_leftovers(into, clock)
    fewer = 0
    for folder in sorted(set(folders)):
        try:
            while (chosen := _chosen(folder, size_wanted)) and _join(into, folder, chosen):
                fewer += len(chosen) - 1
        except (OSError, pa.ArrowException) as error:
            _tell_once(f"{folder}: {error}")
    return fewer


def delete_leftovers(into: Path, clock: Clock = _CLOCK) -> None:
    """Take away the old directories, and what a kill in the middle of a join has left."""
    joined = into / OWN / _JOINED
    # What cannot be taken away lies on until the next time; another job may delete here as well.
    with suppress(OSError):
        for directory in joined.iterdir() if joined.is_dir() else ():
            with suppress(FileNotFoundError):
                if clock.now_ns() - directory.stat().st_mtime_ns > _KEPT_NS:
                    shutil.rmtree(directory, ignore_errors=True)


def _chosen(folder: Path, size_wanted: int) -> list[Path]:
    """Return files of one tier and schema, enough to be joined; none if there are not."""
    tiers: dict[int, list[Path]] = defaultdict(list)
    for file in folder.glob("*.parquet"):
        size = file.stat().st_size
        if size < size_wanted:
            tiers[size.bit_length() // _TIER_BITS].append(file)
    for tier in sorted(tiers):
        if len(tiers[tier]) < _FILES:
            continue
        alike: dict[bytes, list[Path]] = defaultdict(list)
        for file in sorted(tiers[tier], key=_age):
            alike[_schema_of(file).serialize().to_pybytes()].append(file)
        for files in alike.values():
            if len(files) >= _FILES:
                return files
    return []


def _age(file: Path) -> tuple[int, str]:
    return file.stat().st_mtime_ns, file.name


def _join(into: Path, folder: Path, chosen: list[Path]) -> bool:
    """Put one file in the place of several; False where directories cannot be exchanged."""
    beside = into / OWN / _JOINED / secrets.token_hex(8)
    make_directories(beside)
    is_exchanged = False
    try:
        for file in folder.iterdir():
            if file not in chosen:
                os.link(file, beside / file.name)
        _write(chosen, beside / f"joined-{chosen[0].stem}-{len(chosen)}.parquet")
        # Readers may look into the one as into the other.
        shutil.copymode(folder, beside)
        sync_directory(beside)
        is_exchanged = _exchange(beside, folder)
    finally:
        if not is_exchanged:
            shutil.rmtree(beside, ignore_errors=True)
    if is_exchanged:
        sync_directory(folder.parent)
        # It is the old one now, and is kept from this moment on.
        os.utime(beside)
    return is_exchanged


def _schema_of(file: Path) -> pa.Schema:
    try:
        schema: pa.Schema = _untyped.read_schema(file)
    except pa.ArrowException as error:
        # Which file it is Arrow does not say.
        message = f"{file.name} cannot be read: {error}"
        raise pa.ArrowInvalid(message) from error
    return schema


def _write(files: list[Path], place: Path) -> None:
    schema = _schema_of(files[0])
    with place.open("xb") as sink:
        with _untyped.ParquetWriter(sink, schema, compression="snappy") as writer:
            for batch in _batches(files):
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)
        sink.flush()
        os.fsync(sink.fileno())


def _batches(files: list[Path]) -> Iterable[pa.RecordBatch]:
    for file in files:
        yield from _untyped.ParquetFile(file).iter_batches(batch_size=2**16)


def _exchange(made: Path, replaced: Path) -> bool:
    """Let two directories take each other's place in one step; False if that is not to be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        _tell_once("this system's C library has no renameat2")
        return False
    names = os.fsencode(made), os.fsencode(replaced)
    if libc.renameat2(_AT_CWD, names[0], _AT_CWD, names[1], _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code not in _NOT_HERE:
        raise OSError(code, os.strerror(code), str(replaced))
    _tell_once(f"the file system cannot exchange directories ({os.strerror(code)})")
    return False


@lru_cache(maxsize=_TOLD_MAX)
def _tell_once(why: str) -> None:
    _LOG.warning("small files stay as they are: %s", why)
