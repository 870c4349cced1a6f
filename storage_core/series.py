"""Series: transactions numbered upward, of which each number lands at most once.

    series/<directory>/mark.json      the largest number that is done in every shard it names
    series/<directory>/owner.json     who a name belongs to

The directory's name is the xxh3-128 of the series' or the owned name. A mark is written after
the rows of its number are durable and before its staging goes, so a number is always told by
the one or the other. Both are changed under the flock of the stream's directory.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import xxhash

from storage_core.durable_file import (
    encode_document,
    make_directories,
    read_document,
    replace_durably,
)
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.keys import INT64_MAX

# A caller's own transaction never has such a name (staging.check_transaction_name).
NAME_PREFIX: Final = "staged:"
SERIES_BYTES_MAX: Final = 512
_DIRECTORY: Final = "series"
_MARK_FILE: Final = "mark.json"
_OWNER_FILE: Final = "owner.json"


@dataclass(frozen=True, slots=True)
class TransactionId:
    """What tells a staged transaction from all others.

    Attributes:
        series: The name of its series, or of itself if it has no number.
        number: Its place in the series; a number up to the largest one seen is a replay.
    """

    series: str
    number: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        series: object = self.series
        is_text = isinstance(series, str) and series.isprintable()
        if not is_text or not 0 < len(str(series).encode()) <= SERIES_BYTES_MAX:
            message = f"a series' name is text of 1 to {SERIES_BYTES_MAX} printable bytes"
            raise InvalidRequestError(message)
        number: object = self.number
        if number is not None and not (type(number) is int and 0 <= number <= INT64_MAX):
            message = f"a transaction's number is an integer from 0 to {INT64_MAX}, not {number!r}"
            raise InvalidRequestError(message)

    @property
    def name(self) -> str:
        """The transaction's name in the shards."""
        tail = "" if self.number is None else f"/{self.number}"
        return f"{NAME_PREFIX}{self.series}{tail}"


def read_mark(stream: Path, series: str) -> int | None:
    """Return the largest number of a series that is done, None if there is none."""
    found = _read(stream, series, _MARK_FILE, "number")
    if found is not None and type(found) is not int:
        message = "the mark holds no number"
        raise CorruptionError(message, path=_path(stream, series, _MARK_FILE))
    return found


def write_mark(stream: Path, transaction: TransactionId) -> None:
    """Note that a number is done; durable on return. Under the stream's lock."""
    number = transaction.number
    mark = read_mark(stream, transaction.series)
    if number is not None and (mark is None or mark < number):
        _write(stream, transaction.series, _MARK_FILE, {"number": number})


def read_owner(stream: Path, name: str) -> str | None:
    """Return who a name belongs to, None if nobody claimed it."""
    owner = _read(stream, name, _OWNER_FILE, "owner")
    return None if owner is None else str(owner)


def write_owner(stream: Path, name: str, owner: str) -> None:
    """Give a name to an owner; durable on return. Under the stream's lock."""
    _write(stream, name, _OWNER_FILE, {"owner": owner})


def _read(stream: Path, name: str, file: str, field: str) -> object:
    path = _path(stream, name, file)
    try:
        document = read_document(path)
    except FileNotFoundError:
        return None
    if document.get("name") != name:
        message = f"the file belongs to {document.get('name')!r}, not to {name!r}"
        raise CorruptionError(message, path=path)
    return document.get(field)


def _write(stream: Path, name: str, file: str, fields: dict[str, object]) -> None:
    path = _path(stream, name, file)
    make_directories(path.parent)
    replace_durably(path, encode_document({"name": name, **fields}))


def _path(stream: Path, name: str, file: str) -> Path:
    return stream / _DIRECTORY / xxhash.xxh3_128_hexdigest(name.encode()) / file
