"""SQL over streams by DuckDB, and what else reads their parts as columns.

A name is loaded when it is first asked for (platform/lazy_exports.py).
"""

from typing import TYPE_CHECKING, Final

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from storage_core.sql.streams import Streams, connect, query_batches
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {"streams": ("Streams", "connect", "query_batches")},
        extra="sql",
    )

__all__: Final = ["Streams", "connect", "query_batches"]
