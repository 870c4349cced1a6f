"""What rocksdict raises, as the log's own errors.

rocksdict raises plain `Exception` with RocksDB's status as text; the one table that gives it a
kind is here. The first row that matches decides.
"""

import re
from pathlib import Path
from typing import Final

from rocksdict import DbClosedError

from storage_core.errors import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    UnavailableError,
)

CONFIG_FILE: Final = "rocksdict-config.json"

ErrorKinds = tuple[tuple[re.Pattern[str], type[ShardlogError]], ...]
# The first row that matches gives the kind.
_KINDS: Final[ErrorKinds] = (
    (re.compile(r"lock hold by current process|While lock file"), ShardLockedError),
    (
        re.compile(r"^Corruption|SST file is ahead of WALs|bad magic|checksum mismatch"),
        CorruptionError,
    ),
    (re.compile(r"does not exist|No such file|missing files"), CorruptionError),
    (re.compile(r"^(IO error|Shutdown in progress|Incomplete|Busy|TimedOut)"), UnavailableError),
    # rocksdict's own file, of which it says what the system does.
    (re.compile(r"\(os error \d+\)$"), UnavailableError),
)
# Before them where a store is opened: rights that lack do not pass by themselves.
OPENING_KINDS: Final[ErrorKinds] = (
    (
        re.compile(r"IO error.*(Permission denied|Operation not permitted|Read-only file system)"),
        InvalidRequestError,
    ),
    *_KINDS,
)


class translated_errors:  # noqa: N801 - reads as a verb in `with`
    """Gives what rocksdict raises inside the block a kind and a place."""

    __slots__ = ("_doing", "_kinds", "_path")

    def __init__(self, path: Path, doing: str, kinds: ErrorKinds = _KINDS) -> None:
        self._path = path
        self._doing = doing
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DbClosedError):
            message = f"{self._doing}: the store is closed"
            raise ClosedError(message, path=self._path) from error
        if isinstance(error, OSError):
            # NOTE: rocksdict writes its own file beside the store at each opening, readers' too.
            message = f"{self._doing}: {CONFIG_FILE}: {error}"
            is_forbidden = isinstance(error, PermissionError)
            kind = InvalidRequestError if is_forbidden else UnavailableError
            raise kind(message, path=self._path) from error
        # NOTE: rocksdict raises Exception itself; anything more special is not its own.
        if type(error) is Exception:
            text = str(error)
            matching = (kind for pattern, kind in self._kinds if pattern.search(text))
            message = f"{self._doing}: {text}"
            raise next(matching, CorruptionError)(message, path=self._path) from error
