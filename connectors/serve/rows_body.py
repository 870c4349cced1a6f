"""The rows of a request as a file that Arrow reads: bytes as they come, never all of them.

Of one thread, that of the connection. It ends where the body does.
"""

from io import RawIOBase

import pyarrow as pa

from connectors.serve.connection import Connection
from storage_core.platform.overriding import override


class RowsBody(RawIOBase):
    """Reads the body of a request that brings rows."""

    def __init__(self, connection: Connection, until_s: float) -> None:
        """Read until a time."""
        super().__init__()
        self._connection = connection
        self._until_s = until_s

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, or as many as are left.

        Raises:
            GoneError: They did not come in time.
        """
        left = self._connection.rows_left
        wanted = left if size < 0 else min(size, left)
        # Arrow takes any buffer, and this one as it lies; a copy would be of all rows.
        buffer = pa.allocate_buffer(wanted)
        self._connection.receive_rows(memoryview(buffer).cast("B"), self._until_s)
        return buffer  # type: ignore[return-value]  # as `read` of Arrow's own files
