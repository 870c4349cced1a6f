"""The jars on this machine: fetched once, checked on every use, fetched again when damaged.

A bundle is gathered in a directory of its own beside its place and renamed into it, complete with
its manifest. Of several processes that need it at once one fetches, under a lock, and the others
wait.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connectors.dev_stack import ivy
from connectors.dev_stack.bundles import Bundle
from connectors.dev_stack.file_lock import locked
from connectors.dev_stack.manifest import check_pins, damage_of, sha256_of, write_manifest
from connectors.dev_stack.places import jars_directory
from connectors.dev_stack.progress import fetch_progress
from storage_core import UnavailableError

Retrieve = Callable[[Bundle, Path, Callable[[], None]], Path]

_LOCK_MAX_S: Final = 2 * ivy.FETCH_MAX_S
_PARTIAL: Final = ".partial"


def fetched(bundle: Bundle, cache: Path | None = None, retrieve: Retrieve = ivy.retrieve) -> Path:
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
    if damage_of(place, bundle.sha256) is None:
        return place
    try:
        with locked(cache / f"{bundle.name}.lock", f"fetching {bundle.name}", _LOCK_MAX_S):
            if damage_of(place, bundle.sha256) is not None:
                _fetch(bundle, place, retrieve)
    except OSError as error:
        message = f"cannot keep {bundle.name}: {error.strerror or error}"
        raise UnavailableError(message, path=cache) from error
    return place


def _fetch(bundle: Bundle, place: Path, retrieve: Retrieve) -> None:
    for left in place.parent.glob(f"{bundle.name}.*{_PARTIAL}"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{bundle.name}.", suffix=_PARTIAL, dir=place.parent, ignore_cleanup_errors=True
    ) as name:
        partial = Path(name)
        # Ivy keeps what it fetches in its own cache, and copies it from there.
        with fetch_progress(bundle, partial / "cache") as tick:
            gathered = retrieve(bundle, partial, tick)
        hashes = {path.name: sha256_of(path) for path in gathered.iterdir()}
        check_pins(hashes, bundle.sha256)
        for archive in gathered.glob("*.zip"):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(gathered)  # what a pinned checksum vouches for
            archive.unlink()
        write_manifest(gathered, hashes)
        if place.exists():
            place.rename(partial / "damaged")
        gathered.rename(place)
