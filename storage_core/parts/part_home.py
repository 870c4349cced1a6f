"""Where the file of a part is: in its place, or in the lake. All who read one open it here.

The part list alone says which parts there are. Their files may go from this machine once the lake
has them (`keep_local`); whoever opens one then gets its bytes, by its name, from there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import ENOENT
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from storage_core.errors import InvalidRequestError
from storage_core.parts.part_bytes import Opener, PartBytes, open_file
from storage_core.parts.snapshot import Part

# NOTE: the lake stands above this room. It is loaded by its name, here alone, and only where a file
# is absent: else each call between a read and a file would hand down what few streams have.
_LAKE: Final = "storage_core.lake.absent.lake_parts"

# Returns what opens the file of a part.
OpenerOf = Callable[[Part], Opener]


class AbsentParts(Protocol):
    """The parts of a stream whose files are elsewhere. Any thread."""

    def open(self, part: Part) -> PartBytes:
        """Return the bytes of a part; they are asked for as they are read.

        What is read raises FileNotFoundError where there is no such file, CorruptionError where it
        is not that of the part list, and UnavailableError where it cannot be had now.
        """
        ...

    def open_uncached(self, part: Part) -> PartBytes:
        """Return the bytes of a part as `open` does, of none that were read before; none are kept.

        For who tells what is there: what is kept here may outlive it.
        """
        ...

    def whole(self, part: Part) -> Iterator[bytes]:
        """Yield the file of a part as it is there now, in pieces; none of it is kept here.

        Raises:
            FileNotFoundError: There is none.
            CorruptionError: It differs; raised behind the last piece, if not before.
            UnavailableError: It cannot be read now.
        """
        ...

    def has(self, part: Part) -> bool:
        """Tell whether the file of a part is there, by its name and size alone.

        Raises:
            ShardlogError: That cannot be asked now.
        """
        ...

    def holds(self, part: Part) -> bool:
        """Tell whether a file of a part's name and size is there; no table is none.

        Raises:
            ShardlogError: The lake cannot be asked now.
        """
        ...

    def local_copies(self, parts: Sequence[Part]) -> list[Path]:
        """Return files of this machine that have whole parts, for a while.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: One is not that of the part list.
            UnavailableError: One cannot be had now, or together they are too large to be kept here.
        """
        ...


def is_here(part: Part) -> bool:
    """Tell whether the file of a part is in its place; so is one that cannot be looked at now."""
    try:
        part.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # Whoever reads it is told why.
        return True
    return True


def opener_of(part: Part) -> Opener:
    """Return what opens the file of a part, wherever it is, as `open_part` does."""
    return partial(open_part, part)


def uncached_opener_of(part: Part) -> Opener:
    """Return what opens the file of a part as it is now, though bytes of it be kept here."""
    return partial(_open_uncached, part)


def open_part(part: Part) -> PartBytes:
    """Open the file of a part, wherever it is.

    Raises:
        FileNotFoundError: There is none.
        OSError: The system does not let it be read.
        ShardlogError: What the stream's lake is cannot be read.
    """
    try:
        return open_file(part.path)
    except FileNotFoundError as missing:
        elsewhere = _elsewhere(part, missing)
    return elsewhere.open(part)


def _open_uncached(part: Part) -> PartBytes:
    try:
        return open_file(part.path)
    except FileNotFoundError as missing:
        elsewhere = _elsewhere(part, missing)
    return elsewhere.open_uncached(part)


def _elsewhere(part: Part, missing: FileNotFoundError) -> AbsentParts:
    elsewhere = absent_parts(part)
    if elsewhere is None:
        raise missing
    return elsewhere


def refuse_absent(parts: Iterable[Part], stream: str, uri: str | None) -> None:
    """Refuse to forget the lake of a stream while nothing else has some of its parts.

    Args:
        parts: The parts of the stream.
        stream: Its name.
        uri: Where its lake is to be; if None nowhere.

    Raises:
        InvalidRequestError: A file is neither here nor there.
        ShardlogError: The other place cannot be asked.
    """
    absent = [part for part in parts if not is_here(part)]
    if uri is not None and absent:
        directory = absent[0].path.parents[2]
        place: AbsentParts = import_module(_LAKE).parts_at(directory, uri)
        absent = [part for part in absent if not place.holds(part)]
    if absent:
        message = (
            f"lake: only the lake has the files of some parts ({len(absent)}): leave the option as "
            "it is, or name a place with a copy of the whole table"
        )
        raise InvalidRequestError(message, stream=stream, path=absent[0].path)


def has_part(part: Part) -> bool:
    """Tell whether the file of a part is there, wherever it is.

    Raises:
        ShardlogError: It is not here, and the lake cannot be asked now.
    """
    if is_here(part):
        return True
    elsewhere = absent_parts(part)
    return elsewhere is not None and elsewhere.has(part)


def local_files(parts: Sequence[Part]) -> list[Path]:
    """Return files of this machine that have parts of one stream: their own, or copies for a while.

    Raises:
        FileNotFoundError: There is none of one.
        CorruptionError: What the lake has is not that of the part list.
        UnavailableError: One cannot be had now, or together they are too large to be kept here.
    """
    absent = [part for part in parts if not is_here(part)]
    if not absent:
        return [part.path for part in parts]
    elsewhere = absent_parts(absent[0])
    if elsewhere is None:
        raise FileNotFoundError(ENOENT, "a part is gone", str(absent[0].path))
    copies = dict(zip(absent, elsewhere.local_copies(absent), strict=True))
    return [copies.get(part, part.path) for part in parts]


def absent_parts(part: Part) -> AbsentParts | None:
    """Return where the file of a part is if it is not in its place; None where nothing is kept.

    Raises:
        ShardlogError: The options of the stream cannot be read, or the lake's extra is missing.
    """
    logs_directory = part.path.parents[2]
    find: Callable[[Path], AbsentParts | None] = import_module(_LAKE).lake_parts
    return find(logs_directory)
