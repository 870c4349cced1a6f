"""The parts of streams as a file system of DuckDB's, which reads and never writes.

DuckDB takes a file system that follows fsspec. Of what that has, it calls the methods below.
Imported where there is DuckDB alone: fsspec comes with the same extra.
"""

from datetime import UTC, datetime
from typing import Any, Final

from fsspec import AbstractFileSystem

from storage_core.sql.part_files import PROTOCOL, PartFiles, PartHandle

# IMPORTANT: DuckDB keeps footers by name and time. A file never changes, and no two have one name.
_MODIFIED: Final = datetime(2000, 1, 1, tzinfo=UTC)


class PartFileSystem(AbstractFileSystem):
    """The parts that were listed, by their names."""

    protocol = PROTOCOL
    # Else fsspec would keep each for as long as the process runs.
    cachable = False

    def __init__(self, files: PartFiles) -> None:
        """Show these parts."""
        super().__init__()
        self._files = files

    def open(self, path: str, mode: str = "rb", **_options: object) -> PartHandle:
        """Open a part for reading.

        Raises:
            InvalidRequestError: It was to be written.
        """
        return self._files.open(path, mode)

    def info(self, path: str, **_options: object) -> dict[str, Any]:
        """Return name, size and type of a part.

        Raises:
            FileNotFoundError: None of this name was listed.
        """
        part = self._files.listed(path)
        if part is None:
            raise FileNotFoundError(path)
        return {"name": path, "size": part.entry.size, "type": "file"}

    def exists(self, path: str, **_options: object) -> bool:
        """Tell whether a part was listed."""
        return self._files.listed(path) is not None

    def isfile(self, path: str) -> bool:
        """Tell whether a part was listed."""
        return self.exists(path)

    def isdir(self, path: str) -> bool:  # noqa: ARG002 - fsspec's
        """There are no directories."""
        return False

    def glob(self, path: str, maxdepth: int | None = None, **_options: object) -> list[str]:  # noqa: ARG002 - fsspec's
        """Return the part of a name: a pattern is none."""
        return [path] if self.exists(path) else []

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's
        """Return the same time for all."""
        return _MODIFIED
