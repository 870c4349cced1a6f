"""A read-only fsspec file system of listed parts, for DuckDB.

It has the methods of fsspec that DuckDB calls. fsspec comes with the same extra as DuckDB, so only
engine.py imports this, on demand.
"""

from datetime import UTC, datetime
from typing import Any, Final

from fsspec import AbstractFileSystem

from storage_core.sql.part_files import PROTOCOL, PartFiles, PartHandle

# IMPORTANT: DuckDB caches footers by name and time. A file never changes, and names are unique.
_MODIFIED: Final = datetime(2000, 1, 1, tzinfo=UTC)


class PartFileSystem(AbstractFileSystem):
    """The listed parts, by URL."""

    protocol = PROTOCOL
    # Else fsspec would keep each instance for as long as the process runs.
    cachable = False

    def __init__(self, files: PartFiles) -> None:
        """Serve these parts."""
        super().__init__()
        self._files = files

    def open(self, path: str, mode: str = "rb", **_options: object) -> PartHandle:
        """Open a part for reading.

        Raises:
            InvalidRequestError: The mode is to write, or the part is not listed.
        """
        return self._files.open(path, mode)

    def info(self, path: str, **_options: object) -> dict[str, Any]:
        """Return name, size and type of a part.

        Raises:
            FileNotFoundError: It is not listed.
        """
        part = self._files.listed(path)
        if part is None:
            raise FileNotFoundError(path)
        return {"name": path, "size": part.entry.size, "type": "file"}

    def exists(self, path: str, **_options: object) -> bool:
        """Tell whether a part is listed."""
        return self._files.listed(path) is not None

    def isfile(self, path: str) -> bool:
        """Tell whether a part is listed."""
        return self.exists(path)

    def isdir(self, path: str) -> bool:  # noqa: ARG002 - fsspec's
        """Return False: there are no directories."""
        return False

    def glob(self, path: str, maxdepth: int | None = None, **_options: object) -> list[str]:  # noqa: ARG002 - fsspec's
        """Return the part of a URL; patterns do not match."""
        return [path] if self.exists(path) else []

    def modified(self, path: str) -> datetime:  # noqa: ARG002 - fsspec's
        """Return the same time for all."""
        return _MODIFIED
