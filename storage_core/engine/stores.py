"""Opens stores, and loads RocksDB with the first: who reads from a server only has none.

The module that imports rocksdict (rocksdb.py) takes 20 ms and an extra of the package. What knows
a shard's store only to open it imports this one.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage_core.engine.key_value import KeyValueStore, Recovery
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.platform.extras import missing

if TYPE_CHECKING:
    from types import ModuleType

    from storage_core.engine.rocksdb import RocksDbStore

_LIBRARY: Final = "rocksdict"


def refuse_if_not_installed() -> None:
    """Raise if this installation has no stores; cheap, and before any file is looked at.

    Raises:
        InvalidRequestError: RocksDB is not installed.
    """
    if sys.modules.get(_LIBRARY) is None and find_spec(_LIBRARY) is None:
        raise _not_installed()


def open_store(path: Path, recovery: Recovery = "strict") -> KeyValueStore:
    """Open a shard's store for writing; `rocksdb.open_store` says the rest."""
    store: KeyValueStore = _rocksdb(path).open_store(path, recovery)
    return store


def open_secondary(path: Path, private: Path) -> "RocksDbStore":
    """Open a store that another process writes; `private` is for this instance alone."""
    store: RocksDbStore = _rocksdb(path).open_secondary(path, private)
    return store


def _not_installed() -> InvalidRequestError:
    return missing(_LIBRARY, "a stream by path is a RocksDB store")


def _rocksdb(path: Path) -> "ModuleType":
    """Return the module that opens stores.

    Raises:
        InvalidRequestError: RocksDB is not installed.
        UnavailableError: The system does not give what loading takes.
    """
    try:
        from storage_core.engine import rocksdb  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != _LIBRARY:
            raise
        raise _not_installed() from error
    except (OSError, MemoryError, ImportError) as error:
        # Of a library that cannot be mapped Python says that it cannot be imported.
        message = f"RocksDB cannot be loaded now: {str(error) or 'there is no memory'}"
        raise UnavailableError(message, path=path) from error
    return rocksdb
