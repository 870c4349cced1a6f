"""What a reader must be allowed to do: to write one file, though it changes nothing of the store.

NOTE: rocksdict (0.3.29) writes its own configuration beside the store at every opening, also when
it opens one that another process writes.
"""

import os
from pathlib import Path
from typing import Final

from storage_core.errors import InvalidRequestError

_CONFIG_FILE: Final = "rocksdict-config.json"


def refuse_unwritable(store: Path) -> None:
    """Refuse a store that a reader cannot open for want of rights, which time does not mend.

    Raises:
        InvalidRequestError: This process may not write the file.
    """
    config = store / _CONFIG_FILE
    place = config if os.access(config, os.F_OK) else store
    if os.access(place, os.F_OK) and not os.access(place, os.W_OK):
        message = (
            f"a reader must be allowed to write {_CONFIG_FILE}, which the store's library writes "
            "at every opening: give this user the right, or read a copy that is writable"
        )
        raise InvalidRequestError(message, path=store)
