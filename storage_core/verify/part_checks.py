"""Checks of parts: the file of each entry exists and has the published digest.

Of files that only the lake has it is asked whether they are there; they are read if that is wanted,
and from there: what the cache of this machine has of them proves nothing of the store.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import PartEntry, decode_part
from storage_core.format.shard_state import KEY_PART_LIST, KEY_PARTS, KEY_SEALED
from storage_core.parts.footer import read_error
from storage_core.parts.part_home import absent_parts, is_here
from storage_core.parts.part_proof import digest_of
from storage_core.parts.snapshot import (
    Part,
    PartIndex,
    index_of,
    listed_part,
    parts_directory,
    read_index,
)
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

_MISSING_EVERYWHERE: Final = "is missing, and the lake has none of its size"


@dataclass(frozen=True, slots=True)
class CheckedParts:
    """How many files of parts were read, and how many not, which only the lake has."""

    read: int
    in_lake: int


def check_parts(
    view: ShardSnapshot, shard_directory: Path, findings: Findings, *, reads_lake: bool
) -> CheckedParts:
    """Compare a shard's part list with its files, those that only the lake has if it is wanted."""
    read = in_lake = 0
    directory = parts_directory(shard_directory)
    state = view.state
    try:
        read_index(view)
    except CorruptionError as error:
        findings.add("part", error.message, key=KEY_PART_LIST)
    for key, data in view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            part = decode_part(key, data)
        except CorruptionError as error:
            findings.add("part", error.message, key=key)
            continue
        place = (part.first, part.last + 1, key)
        if part.number >= state.parts:
            message = f"part {part.number} is listed, but only {state.parts} numbers were assigned"
            findings.add("part", message, *place[:2], KEY_PARTS)
        if part.last >= state.sealed:
            message = (
                f"a part has rows up to {part.last}, but rows are sealed only below {state.sealed}"
            )
            findings.add("part", message, *place[:2], KEY_SEALED)
        listed = listed_part(view.shard, directory, part)
        message = part_difference(listed, reads_lake=reads_lake)
        is_here = listed.path.is_file()
        is_away = not is_here and not message
        read += is_here or (is_away and reads_lake)
        in_lake += is_away and not reads_lake
        if message:
            findings.add("part", f"{part.file_name} {message}", *place, file=listed.path)
    return CheckedParts(read, in_lake)


def away_parts(view: ShardSnapshot, shard_directory: Path) -> PartIndex:
    """Return the parts of a shard whose files are not here, though its stream has a lake.

    Raises:
        CorruptionError: The part list is damaged.
    """
    directory = parts_directory(shard_directory)
    listed = [listed_part(view.shard, directory, entry) for entry in index_of(view).entries]
    absent = [part for part in listed if not is_here(part)]
    has_lake = bool(absent) and absent_parts(absent[0]) is not None
    return PartIndex([part.entry for part in absent] if has_lake else [])


def part_difference(part: Part, *, reads_lake: bool = True) -> str:
    """Say what is wrong with the file of a part, wherever it is; nothing if all is well.

    Args:
        part: The part.
        reads_lake: Whether to read a file that only the lake has; else to ask for its size.

    Raises:
        InvalidRequestError: This process has no right to read it, which says nothing of the file.
        UnavailableError: It cannot be read now.
    """
    elsewhere = None if is_here(part) else absent_parts(part)
    if elsewhere is None:
        return difference(part.path, part.entry)
    if not elsewhere.has(part):
        return _MISSING_EVERYWHERE
    try:
        if reads_lake:
            deque(elsewhere.whole(part), maxlen=0)
    except FileNotFoundError:
        return _MISSING_EVERYWHERE
    except CorruptionError as error:
        return f"cannot be read: {error.message}"
    return ""


def difference(path: Path, part: PartEntry, *, reads: bool = True) -> str:
    """Say what is wrong with a part's file; nothing if all is well.

    Args:
        path: The file.
        part: What the part list says of it.
        reads: Whether all of it is read; else its size alone is compared.

    Raises:
        InvalidRequestError: This process has no right to read it, which says nothing of the file.
        UnavailableError: The system cannot read it now.
    """
    try:
        size = path.stat().st_size
        digest = digest_of(path) if reads and size == part.size else part.digest
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        refusal = read_error(path, error)
        if not isinstance(refusal, CorruptionError):
            raise refusal from error
        return f"cannot be read: {error.strerror}"
    if size != part.size:
        return f"has {size} bytes, expected {part.size}"
    if digest != part.digest:
        return "does not match its digest"
    return ""
