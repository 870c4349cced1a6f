"""What must be whole after any crash: small files, and directories with a list of their files.

    a file         `write_once`, `replace_durably` and `replace_in_pieces`: a draft beside it,
                   synced, gets its name
    a cached file  `replace_whole`: the same without a sync. What reads it proves it.
    a directory    its files are synced, then `sync_directory`; a list, which is a file as above,
                   makes them count. What the list does not name is nobody's, and is deleted by
                   the next who writes there. `move_directory` gives a whole one another name.

A document is the JSON object itself plus `checksum`, the xxh3-64 of its canonical text; a
flipped bit is told by the file's name, never read as another value.
"""

import errno
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.platform import xxh3

_CHECKSUM_FIELD = "checksum"
# Rights and mounts: they do not pass by themselves.
# The end of the name of a file that has not its own yet.
DRAFT: Final = ".draft"
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def file_errors(path: Path, doing: str) -> Iterator[None]:
    """Give an operating system's refusal a kind and a place.

    Raises:
        UnavailableError: The disk is full, failing or forbidden; the call may be repeated
            once that is mended. Of what is forbidden `reading_errors` and `taking_errors` tell
            more.
    """
    try:
        yield
    except OSError as error:
        message = f"{doing}: {error.strerror or error}"
        raise UnavailableError(message, path=path) from error


@contextmanager
def taking_errors(path: Path, doing: str) -> Iterator[None]:
    """Do as `file_errors`, where something is about to be taken for writing.

    Whoever may not write there will not be allowed to later either.

    Raises:
        InvalidRequestError: This process may not write there.
        UnavailableError: The disk is full or failing; the call may be repeated later.
    """
    with file_errors(path, doing), _rights_told(path, doing, "write"):
        yield


@contextmanager
def reading_errors(path: Path, doing: str) -> Iterator[None]:
    """Do as `file_errors`, where something is read.

    Whoever may not read it will not be allowed to later either.

    Raises:
        InvalidRequestError: This process may not read there.
        UnavailableError: The disk is failing; the call may be repeated later.
    """
    with file_errors(path, doing), _rights_told(path, doing, "read"):
        yield


def lacking_right(
    path: Path, doing: str, error: OSError, right: Literal["read", "write"]
) -> InvalidRequestError | None:
    """Return what tells of a right that lacks; None if the system refuses for something else."""
    if error.errno not in _FORBIDDEN:
        return None
    message = (
        f"{doing}: {os.strerror(error.errno)}; give this process the right to {right} here, or "
        "run it as the owner"
    )
    return InvalidRequestError(message, path=path)


@contextmanager
def _rights_told(path: Path, doing: str, right: Literal["read", "write"]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        refusal = lacking_right(path, doing, error, right)
        if refusal is None:
            raise
        raise refusal from error


def encode_document(fields: Mapping[str, object]) -> bytes:
    """Return a JSON object with its checksum."""
    document = {**fields, _CHECKSUM_FIELD: _checksum(fields)}
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def read_document(path: Path) -> dict[str, object]:
    """Return the JSON object in a file.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: The file is not what was written.
    """
    return decode_document(path.read_bytes(), path)


def decode_document(data: bytes, path: Path) -> dict[str, object]:
    """Return the JSON object that `encode_document` made the bytes of a file of.

    Raises:
        CorruptionError: They are not what was written.
    """
    try:
        fields = json.loads(data)
        is_whole = isinstance(fields, dict) and fields.pop(_CHECKSUM_FIELD, None) == _checksum(
            fields
        )
    except (ValueError, RecursionError) as error:
        message = f"not the JSON that was written: {error}"
        raise CorruptionError(message, path=path) from error
    if not is_whole:
        message = "the file does not match its checksum"
        raise CorruptionError(message, path=path)
    document: dict[str, object] = fields
    return document


def write_once(path: Path, data: bytes) -> bool:
    """Publish a file that must not exist yet; durable on return.

    Returns:
        False if somebody else was first; the file is then theirs.
    """
    with _drafted(path, (data,)) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync_directory(path.parent)
    return True


def replace_durably(path: Path, data: bytes) -> None:
    """Put new contents in a file's place; durable on return."""
    replace_in_pieces(path, (data,))


def replace_in_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Do as `replace_durably` with what comes in pieces; an error of theirs changes nothing."""
    with _drafted(path, pieces) as draft:
        draft.rename(path)
    sync_directory(path.parent)


def remove_drafts(path: Path) -> None:
    """Remove what a crash left of new contents of a file, which nobody writes now."""
    for left in path.parent.glob(f"{path.name}.*{DRAFT}"):
        left.unlink(missing_ok=True)


def replace_whole(path: Path, data: Iterable[bytes]) -> None:
    """Put new contents in a file's place, whole, but not durable: a crash may leave it damaged.

    It is for what is proven as it is read, and can be had again.
    """
    with _drafted(path, data, is_synced=False) as draft:
        draft.rename(path)


def make_directories(path: Path) -> None:
    """Make a directory and those above it that are missing; their names are durable on return."""
    if path.is_dir():
        return
    make_directories(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def move_directory(directory: Path, target: Path) -> None:
    """Rename a directory whose entries are durable; both names are durable on return."""
    directory.rename(target)
    for parent in {target.parent, directory.parent}:
        sync_directory(parent)


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _drafted(path: Path, data: Iterable[bytes], *, is_synced: bool = True) -> Iterator[Path]:
    """Write a file beside another, durable but for its name; what fails leaves none behind."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}{DRAFT}")
    try:
        with draft.open("wb") as file:
            for piece in data:
                file.write(piece)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        yield draft
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _checksum(fields: Mapping[str, object]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return xxh3.xxh3_64_hexdigest(text.encode())
