"""Series: transactions numbered upward, of which each number lands at most once.

    series/<directory>/mark.json      the largest number that is done in every shard it names,
                                      and what it and the ones before it held
    series/<directory>/owner.json     who a name belongs to

The directory's name is the xxh3-128 of the series' or the owned name. A mark is written after
the rows of its number are durable and before its staging goes, so a number is always told by
the one or the other. Both are changed under the flock of the stream's directory.

A number that comes again with other rows is none that was done: its caller was set back, and
would lose them. So the mark keeps what the last CONTENTS_KEPT_MAX numbers held.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.contents import Contents, decode_contents, encode_contents
from storage_core.format.keys import INT64_MAX
from storage_core.platform import xxh3
from storage_core.platform.durable_file import (
    encode_document,
    make_directories,
    read_document,
    replace_durably,
)

# A caller's own transaction never has such a name (transaction.py).
NAME_PREFIX: Final = "staged:"
NAME_BYTES_MAX: Final = 512
CONTENTS_KEPT_MAX: Final = 128
_NUMBER: Final = re.compile(r"/(0|[1-9][0-9]*)\Z")
_DIRECTORY: Final = "series"
_MARK_FILE: Final = "mark.json"
_OWNER_FILE: Final = "owner.json"


def can_be_kept(name: object) -> bool:
    """Tell whether something can name a transaction or a series."""
    is_text = isinstance(name, str) and name.isprintable()
    return is_text and 0 < len(str(name).encode()) <= NAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class TransactionId:
    """What tells a staged transaction from all others.

    Attributes:
        series: The name of its series, or of itself if it has no number; that may not end in
            a slash and a number, as the ids of a series do.
        number: Its place in the series; a number up to the largest one seen is a replay.
    """

    series: str
    number: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        if not can_be_kept(self.series):
            message = f"a series' name is text of 1 to {NAME_BYTES_MAX} printable bytes"
            raise InvalidRequestError(message)
        number: object = self.number
        if number is not None and not (type(number) is int and 0 <= number <= INT64_MAX):
            message = f"a transaction's number is an integer from 0 to {INT64_MAX}, not {number!r}"
            raise InvalidRequestError(message)
        if number is None and _NUMBER.search(self.series):
            message = (
                f"{self.series!r} without a number is the id of a number in a series: "
                "name it otherwise, or give series and number"
            )
            raise InvalidRequestError(message)

    @property
    def name(self) -> str:
        """The transaction's name in the shards."""
        tail = "" if self.number is None else f"/{self.number}"
        return f"{NAME_PREFIX}{self.series}{tail}"


def id_of_name(name: str) -> TransactionId | None:
    """Return the id of a transaction with a number from its name in the shards."""
    match = _NUMBER.search(name)
    if match is None or not name.startswith(NAME_PREFIX):
        return None
    return TransactionId(name[len(NAME_PREFIX) : match.start()], int(match[1]))


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a series has come.

    Attributes:
        number: The largest one that is done.
        contents: What the last numbers held, of those for which it was told.
        skipped: How often a number came again, and nothing was written.
    """

    number: int
    contents: Mapping[int, Contents] = field(default_factory=dict)
    skipped: int = 0


def read_mark(stream: Path, series: str) -> Mark | None:
    """Return how far a series has come, None if nothing of it is done.

    Raises:
        CorruptionError: The mark is damaged.
    """
    document = _read(stream, series, _MARK_FILE)
    if document is None:
        return None
    try:
        return _decode_mark(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the mark is damaged: {error}"
        raise CorruptionError(message, path=_path(stream, series, _MARK_FILE)) from error


def write_mark(stream: Path, transaction: TransactionId, contents: Contents | None) -> None:
    """Note that a number is done; durable on return. Under the stream's lock."""
    number = transaction.number
    mark = read_mark(stream, transaction.series)
    if number is None or (mark is not None and mark.number >= number):
        return
    held = {} if mark is None else dict(mark.contents)
    if contents is not None:
        held[number] = contents
    newest = {n: held[n] for n in sorted(held)[-CONTENTS_KEPT_MAX:]}
    skipped = 0 if mark is None else mark.skipped
    _write_mark(stream, transaction.series, Mark(number, newest, skipped))


def note_skipped(stream: Path, series: str) -> None:
    """Count a number that came again; durable on return. Under the stream's lock."""
    mark = read_mark(stream, series)
    if mark is not None:
        _write_mark(stream, series, replace(mark, skipped=mark.skipped + 1))


def claim(stream: Path, name: str, owner: str, *, takes_over: bool) -> str:
    """Give a name to an owner unless it has another, and return whose it is; durable on return.

    Under the stream's lock.
    """
    document = _read(stream, name, _OWNER_FILE) or {}
    holder = document.get("owner")
    if holder is None or (holder != owner and takes_over):
        _write(stream, name, _OWNER_FILE, {"owner": owner})
        return owner
    return str(holder)


def _decode_mark(document: dict[str, Any]) -> Mark:
    number, skipped = document["number"], document["skipped"]
    if type(number) is not int or type(skipped) is not int:
        message = f"{number!r} and {skipped!r} are not numbers"
        raise ValueError(message)
    held = document["contents"].items()
    return Mark(number, {int(n): decode_contents(each) for n, each in held}, skipped)


def _write_mark(stream: Path, series: str, mark: Mark) -> None:
    held = {str(n): encode_contents(contents) for n, contents in mark.contents.items()}
    fields = {"number": mark.number, "contents": held, "skipped": mark.skipped}
    _write(stream, series, _MARK_FILE, fields)


def _read(stream: Path, name: str, file: str) -> dict[str, Any] | None:
    path = _path(stream, name, file)
    try:
        document = read_document(path)
    except FileNotFoundError:
        return None
    if document.get("name") != name:
        message = f"the file belongs to {document.get('name')!r}, not to {name!r}"
        raise CorruptionError(message, path=path)
    return document


def _write(stream: Path, name: str, file: str, fields: dict[str, object]) -> None:
    path = _path(stream, name, file)
    make_directories(path.parent)
    replace_durably(path, encode_document({"name": name, **fields}))


def _path(stream: Path, name: str, file: str) -> Path:
    return stream / _DIRECTORY / xxh3.xxh3_128_hexdigest(name.encode()) / file
