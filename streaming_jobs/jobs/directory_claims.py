"""Where a job keeps how far it came, and writes files: directories, and whose they are.

A checkpoint says how far a query has read, and nothing of what became of the rows; another job
that went on from it would skip all before, silently. So a note lies in each directory, made
before anything else, that says whose it is:

    <checkpoint>/shardlog-job.json      job, stream and what the rows become

Spark looks at names of its own there, and at no others. A checkpoint of another file system, as
`hdfs://…`, has no note: it is taken on trust.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from storage_core import ForeignDataError, InvalidRequestError
from storage_core.platform.durable_file import (
    encode_document,
    file_errors,
    make_directories,
    read_document,
    replace_durably,
    taking_errors,
)

NOTE: Final = "shardlog-job.json"
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE: Final = "file"
_COMMITS: Final = "commits"


def directory_of(text: str | Path, name: str) -> Path:
    """Return a directory of this machine, given as a path or a `file:` URI.

    Raises:
        InvalidRequestError: It is one of another file system.
    """
    place = checkpoint_of(text)
    if _SCHEME.match(place):
        message = f"{name} {text}: files are written to a directory of this machine"
        raise InvalidRequestError(message)
    return Path(place).absolute()


def checkpoint_of(text: str | Path) -> str:
    """Return a checkpoint as all processes of a job call it: an absolute path, or another URI."""
    scheme = _SCHEME.match(str(text))
    if scheme is not None and scheme[1] != _FILE:
        return str(text)
    path = str(text) if scheme is None else unquote(urlsplit(str(text)).path)
    return str(Path(path).absolute())


def claim_checkpoint(checkpoint: str, whose: Mapping[str, str]) -> None:
    """Make a checkpoint a job's, or prove that it is.

    Raises:
        InvalidRequestError: It is another job's, or somebody else's, or no directory, or this
            process may not write there.
        UnavailableError: The disk refuses.
    """
    for note in note_of(checkpoint):
        place = note.parent
        claim(place, NOTE, whose, f"checkpoint {place}")


def note_of(checkpoint: str) -> list[Path]:
    """Return where a checkpoint's note lies; one of another file system has none."""
    return [] if _SCHEME.match(checkpoint) else [Path(checkpoint).absolute() / NOTE]


def has_come_on(checkpoint: str) -> bool:
    """Tell whether a query has committed a batch there; one of another file system is not asked."""
    if _SCHEME.match(checkpoint):
        return False
    commits = Path(checkpoint) / _COMMITS
    with file_errors(commits, "the checkpoint cannot be read"):
        return commits.is_dir() and any(one.name.isdigit() for one in commits.iterdir())


def claim(
    place: Path, note: str, whose: Mapping[str, str], called: str, *, free: Collection[str] = ()
) -> None:
    """Make a directory somebody's by a note, or prove that it is.

    Args:
        place: The directory; it is made if need be.
        note: The note's name.
        whose: What identifies the owner.
        called: What the directory is called in an error.
        free: Names that may lie in a directory without a note.

    Raises:
        InvalidRequestError: It is somebody else's, or no directory, or this process may not write
            there.
        ForeignDataError: The note was made by something else.
        UnavailableError: The disk refuses.
    """
    if place.exists() and not place.is_dir():
        message = f"{called} is a file; name a directory"
        raise InvalidRequestError(message)
    with taking_errors(place, "the directory cannot be taken"):
        try:
            fields = read_document(place / note)
        except FileNotFoundError:
            _refuse_full(place, called, free)
            make_directories(place)
            replace_durably(place / note, encode_document(whose))
            return
    if fields == dict(whose):
        return
    if fields.keys() != whose.keys():
        message = f"{called} is of {_described(fields)}; name another directory"
        raise ForeignDataError(message)
    others = {name: value for name, value in fields.items() if whose[name] != value}
    own = {name: whose[name] for name in others}
    message = (
        f"{called} is of {_described(others)}, not of {_described(own)}; name another directory"
    )
    raise InvalidRequestError(message)


def _refuse_full(place: Path, called: str, free: Collection[str]) -> None:
    with file_errors(place, "the directory cannot be read"):
        others = sorted({one.name for one in place.iterdir()} - set(free)) if place.is_dir() else []
    if others:
        message = f"{called} holds {others[0]!r} of somebody else; name another directory"
        raise InvalidRequestError(message)


def _described(fields: Mapping[str, object]) -> str:
    # Which job it is comes first.
    names = sorted(fields, key=lambda name: (name != "job", name))
    return ", ".join(f"{name} {fields[name]}" for name in names)
