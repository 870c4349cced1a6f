"""What is remembered, by name: the text of a query, and where its frames lie.

    <root>/~remembered/<name>.json      the query; it must not exist before
    <root>/~remembered/<identity>/      its frames (frame_list.py); another identity each time

A name goes before its frames do. A directory that no name has is nobody's, and is deleted by who
remembers or forgets next.
"""

import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from storage_core import SystemClock
from storage_core.platform.durable_file import (
    DRAFT,
    encode_document,
    make_directories,
    read_document,
    reading_errors,
    sync_directory,
    taking_errors,
    write_once,
)
from storage_core.platform.name_suggestions import unknown_names
from typed_events.errors import CommandError, NotFoundError
from typed_events.language.parse import parse

# No stream has a tilde in its name.
DIRECTORY: Final = "~remembered"
_SUFFIX: Final = ".json"
# Nobody takes so long to write one.
_DRAFT_AGE_MAX_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class RememberedQuery:
    """A query that is remembered.

    Attributes:
        name: Its name.
        text: The query, as it was written.
        identity: A random id made with it, in hex.
    """

    name: str
    text: str
    identity: str


class RememberedNames:
    """The queries that are remembered below a root. Any thread, any process."""

    def __init__(self, root: Path) -> None:
        """Read and write below a root."""
        self._directory = root / DIRECTORY

    def frames_of(self, query: RememberedQuery) -> Path:
        """Return the directory of a query's frames."""
        return self._directory / query.identity

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(path.name.removesuffix(_SUFFIX) for path in self._paths() if _is_name(path))

    def find(self, name: str) -> RememberedQuery:
        """Return what is remembered by a name.

        Raises:
            NotFoundError: Nothing is.
            CorruptionError: The file of it is damaged.
        """
        path = self._path(name)
        with reading_errors(path, "reading what is remembered"):
            try:
                document = read_document(path)
            except FileNotFoundError:
                raise self.nothing_called(name) from None
        return RememberedQuery(name, str(document["text"]), str(document["identity"]))

    def nothing_called(self, name: str) -> NotFoundError:
        """Return the error of a name by which nothing is remembered."""
        return NotFoundError(unknown_names("remembered query", [name], self.names()))

    def add(self, query: RememberedQuery) -> bool:
        """Remember a query, durably; tell whether it is new.

        Raises:
            CommandError: Another query has its name.
        """
        path = self._path(query.name)
        with taking_errors(path, "remembering a query"):
            make_directories(self._directory)
            self._delete_nameless()
            if write_once(path, encode_document(asdict(query))):
                return True
        if parse(self.find(query.name).text) == parse(query.text):
            return False
        message = f"{query.name} is another query already: FORGET {query.name} first"
        raise CommandError(message)

    def remove(self, name: str) -> None:
        """Forget what is remembered by a name, durably.

        Raises:
            NotFoundError: Nothing is.
        """
        path = self._path(name)
        with taking_errors(path, "forgetting a query"):
            try:
                path.unlink()
            except FileNotFoundError:
                raise self.nothing_called(name) from None
            sync_directory(self._directory)
        with suppress(OSError):
            self._delete_nameless()

    def _delete_nameless(self) -> None:
        # IMPORTANT: directories first: each of them is made behind its name.
        directories = [path for path in self._paths() if path.is_dir()]
        identities = set()
        for path in self._paths():
            if _is_name(path):
                try:
                    identities.add(read_document(path)["identity"])
                except FileNotFoundError:
                    continue
                except ValueError:
                    # Whose frames they are cannot be told.
                    return
        for path in directories:
            if path.name not in identities:
                shutil.rmtree(path, ignore_errors=True)
        self._delete_old_drafts()

    def _delete_old_drafts(self) -> None:
        """Delete what is left of names whose writers have died."""
        before_s = SystemClock().now_ns() / 10**9 - _DRAFT_AGE_MAX_S
        for path in self._paths():
            with suppress(OSError):
                if path.suffix == DRAFT and path.stat().st_mtime < before_s:
                    path.unlink()

    def _paths(self) -> list[Path]:
        try:
            return [*self._directory.iterdir()]
        except FileNotFoundError:
            return []

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"


def _is_name(path: Path) -> bool:
    return path.name.endswith(_SUFFIX) and not path.is_dir()
