"""Versions of subjects that a registry returned, cached as long as a Spark application lives.

Spark asks for a query's writer with each batch, in a process that may have ended meanwhile: after a
minute without work it does. A version never changes, so whoever read it once in an application
goes on with it where the registry does not answer.

    <SPARK_LOCAL_DIRS, the first>/shardlog-schemas/<digest>.json    {"id": …, "schema": …}

Spark removes that directory with the application. What cannot be written or read there is as if it
had not been kept.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

APPLICATIONS_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"
# NOTE: PySpark 4.3 hands its processes those of its block manager; the same name, set by whoever
# starts Spark, is of directories that outlive the application.
_OF_APPLICATION: Final = "blockmgr-"
_FOLDER: Final = "shardlog-schemas"


class CachedVersion(NamedTuple):
    """A version of a subject: the schema's text, which stands alone, and its id."""

    text: str
    registry_id: int


class VersionCache:
    """What registries have returned in this application. Any process, any thread."""

    def __init__(self, directories: str) -> None:
        """Find the application's directory among those that Spark gave; without it keep nothing."""
        first = Path(directories.partition(",")[0])
        is_there = first.name.startswith(_OF_APPLICATION) and first.is_dir()
        self._folder = first / _FOLDER if is_there else None

    def keep(
        self, registry: Sequence[str], subject: str, version: int, cached: CachedVersion
    ) -> None:
        """Store what a registry returned; whole or not at all."""
        if self._folder is None:
            return
        path = self._path(self._folder, registry, subject, version)
        draft = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            draft.write_text(json.dumps({"id": cached.registry_id, "schema": cached.text}))
            draft.replace(path)

    def of(self, registry: Sequence[str], subject: str, version: int) -> CachedVersion | None:
        """Return what a registry returned, None if it is not cached."""
        if self._folder is None:
            return None
        try:
            document = json.loads(self._path(self._folder, registry, subject, version).read_text())
            return CachedVersion(str(document["schema"]), int(document["id"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def _path(folder: Path, registry: Sequence[str], subject: str, version: int) -> Path:
        key = json.dumps([*registry, subject, version])
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
